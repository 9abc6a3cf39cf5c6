import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What tests, and processes that they start, leave among temporary files goes when all are done. */
export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'kv-test-'));
  Object.assign(process.env, { TMPDIR: folder, TEMP: folder, TMP: folder });
  return () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
