import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { plain } from '../plain.ts';

/** Bits of a mode by which users who are neither the owner nor of the group read or write. */
const OTHERS = 0o006;

/** A warning about a file of keys that every user of the machine can read or write; nothing for one that is private. */
export function openKeyFile(file: string, cwd: string): string | undefined {
  if (process.platform === 'win32') return undefined; // whose modes say nothing
  const found = statSync(resolve(cwd, file), { throwIfNoEntry: false });
  if (!found?.isFile() || (found.mode & OTHERS) === 0) return undefined;
  const mode = (found.mode & 0o777).toString(8).padStart(4, '0');
  return `${plain(file)}: expected a file of keys that only its owner and group can read, got mode ${mode}: chmod 600 ${plain(file)}`;
}
