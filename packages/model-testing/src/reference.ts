import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Returns the path of a file or folder of this package, such as `data/goldens/llama`; data/README.md describes them.
 */
export const reference = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

export const referenceJson = <T>(path: string): T => JSON.parse(readFileSync(reference(path), 'utf8')) as T;

/**
 * Returns `length` UTF-16 units of a public-domain book from `start` on; `data/text` holds the parts that tests read.
 */
export function excerpt(file: string, start: number, length: number): string {
  const part =
      referenceJson<Readonly<Record<string, { readonly start: number; readonly text: string }>>>(
        'data/text/excerpts.json',
      )[file],
    from = start - (part?.start ?? Infinity);
  if (!part || from < 0 || from + length > part.text.length)
    throw new Error(`data/text/excerpts.json: expected ${file} from ${start} to ${start + length}, got other parts`);
  return part.text.slice(from, from + length);
}
