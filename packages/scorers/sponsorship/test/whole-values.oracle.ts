import type { Tokens } from '@kv/core';

/** An anchor at a token, and the characters of its value. */
export interface Given {
  readonly position: number;
  readonly value: readonly [number, number];
  readonly title?: readonly [number, number];
  readonly worth: number;
}
/** Where the name of a value begins, character by character backwards on its line, at most 256 of them. */
function nameStart(text: string, start: number): number {
  const isSpace = (c: string): boolean => c.trim() === '';
  let line = start;
  while (line > Math.max(0, start - 256) && text[line - 1] !== '\n') line--;
  let sign = start;
  while (sign > line && (isSpace(text[sign - 1]) || '"\'`\\'.includes(text[sign - 1]))) sign--;
  const isKeyed = sign > line && ':='.includes(text[sign - 1]),
    last = isKeyed ? sign - 1 : start;
  let from = last;
  while (from > line) {
    const c = text[from - 1],
      spaced = from < last && isSpace(text[from]);
    if (isKeyed && ',;{}&?|'.includes(c)) break;
    if ((isKeyed ? '.!?' : '.!?;').includes(c) && spaced) break;
    from--;
  }
  while (from < start && isSpace(text[from])) from++;
  return from;
}
/**
 * What a token is vouched for, in float64, token by token: the largest worth of the values that it has characters of, or
 * lies before and after their anchor, or comes right after; of a value only the first `most` tokens. Before them at most
 * `lead` tokens that reach into its name, and with any lead those of its title, at half the worth.
 */
export const wholeOracle = (
  { text, offsets }: Pick<Tokens, 'text' | 'offsets'>,
  given: readonly Given[],
  { most, lead }: { readonly most: number; readonly lead: number },
  strength: number,
): readonly number[] =>
  offsets.map((_, j) =>
    given.reduce((best, { position, value: [start, end], title, worth }) => {
      const all = offsets.map((_o, i) => i),
        meets = (i: number): boolean => offsets[i][0] < end && offsets[i][1] > start,
        own = all.filter((i) => meets(i) || (i > position && offsets[i][1] <= start)),
        after = own.length > most ? [] : all.filter((i) => i === (own.at(-1) ?? -2) + 1),
        before = all.filter(
          (i) => i < (own[0] ?? 0) && i >= (own[0] ?? 0) - lead && offsets[i][1] > nameStart(text, start),
        ),
        titled = all.filter((i) => lead > 0 && title && offsets[i][0] < title[1] && offsets[i][1] > title[0]);
      if ([...own.slice(0, most), ...after].includes(j)) return Math.max(best, strength * worth);
      return [...before, ...titled].includes(j) ? Math.max(best, (strength * worth) / 2) : best;
    }, 0),
  );
