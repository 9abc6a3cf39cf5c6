import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { plain } from '../plain.ts';

/** Mode bits for reading and writing by others than the owner and the group. */
const OTHERS = 0o006;

/** Returns a warning about a key file that every user of the machine can read or write; undefined for a private one. */
export function openKeyFile(file: string, cwd: string): string | undefined {
  if (process.platform === 'win32') return undefined; // its modes are not meaningful
  const found = statSync(resolve(cwd, file), { throwIfNoEntry: false });
  if (!found?.isFile() || (found.mode & OTHERS) === 0) return undefined;
  const mode = (found.mode & 0o777).toString(8).padStart(4, '0');
  return `${plain(file)}: expected a file of keys that only its owner and group can read, got mode ${mode}: chmod 600 ${plain(file)}`;
}
