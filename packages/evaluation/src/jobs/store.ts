import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Grows when results change their meaning: older files are then left alone. */
const FORMAT = 2;

/** Results on disk, one JSON object a line after a line with the settings. */
interface Store<R> {
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
 * Opens the results of these settings; with `fresh` what was there is dropped, without a folder nothing is kept. A last
 * line that was torn by a crash is cut off. `name` begins the file's name.
 */
export function openStore<R>({
  folder,
  name,
  settings,
  fresh = false,
}: {
  readonly folder: string | undefined;
  readonly name: string;
  readonly settings: object;
  readonly fresh?: boolean | undefined;
}): Store<R> {
  if (folder === undefined) return { path: '', found: [], add: () => {} };
  const path = join(folder, `${name}-${digest(settings)}.jsonl`);
  if (fresh) rmSync(path, { force: true });
  const append = (line: object | R): void => appendFileSync(path, `${JSON.stringify(line)}\n`);
  return {
    path,
    found: existsSync(path) ? readResults<R>(path) : [],
    add(result) {
      if (!existsSync(path)) {
        mkdirSync(dirname(path), { recursive: true });
        append({ format: FORMAT, settings });
      }
      append(result);
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
