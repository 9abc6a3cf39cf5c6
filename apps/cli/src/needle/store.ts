import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import type { Result } from './results.ts';
import type { Settings } from './settings.ts';

/** Grows when results change their meaning: older files are then left alone. */
const FORMAT = 2;

/** Results on disk, one JSON object a line after a line with the settings. */
export interface Store<R = Result> {
  readonly path: string;
  /** Results of earlier runs with the same settings. */
  readonly found: readonly R[];
  add(result: R): void;
}

/** A short name for the settings: the same settings, the same file. */
export const digest = (settings: object): string =>
  createHash('sha256')
    .update(JSON.stringify([FORMAT, settings]))
    .digest('hex')
    .slice(0, 12);

/**
 * Opens the results of these settings; with `fresh` what was there is dropped. A last line that was torn by a crash is
 * cut off.
 * Free answers have files of another name: older ones of the plain name hold what was right by another rule.
 */
export const openStore = (folder: string, settings: Settings, fresh = false): Store =>
  openLines(folder, settings.asking === 'free' ? 'needle-free' : 'needle', settings, fresh);

/** The same for the results of any experiment: `name` begins the file's name. */
export function openLines<R>(folder: string, name: string, settings: object, fresh = false): Store<R> {
  const path = join(folder, `${name}-${digest(settings)}.jsonl`);
  if (fresh) rmSync(path, { force: true });
  const found = existsSync(path) ? readResults<R>(path) : [];
  return {
    path,
    found,
    add(result) {
      if (!existsSync(path)) {
        mkdirSync(folder, { recursive: true });
        appendFileSync(path, `${JSON.stringify({ format: FORMAT, settings })}\n`);
      }
      appendFileSync(path, `${JSON.stringify(result)}\n`);
    },
  };
}

function readResults<R>(path: string): readonly R[] {
  const bytes = readFileSync(path),
    end = bytes.lastIndexOf(10) + 1;
  if (end === 0) rmSync(path);
  else if (end < bytes.length) truncateSync(path, end);
  return bytes
    .subarray(0, end)
    .toString('utf8')
    .split('\n')
    .slice(1, -1)
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as R];
      } catch {
        return [];
      }
    });
}
