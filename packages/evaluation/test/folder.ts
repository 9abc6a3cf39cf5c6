import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** An empty folder. */
export const folder = (): string => mkdtempSync(join(tmpdir(), 'kv-evaluation-'));
