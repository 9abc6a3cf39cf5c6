import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Removes the temporary files of tests, and of processes that they start, when all are done. */
export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'kv-test-'));
  Object.assign(process.env, { TMPDIR: folder, TEMP: folder, TMP: folder });
  return () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
