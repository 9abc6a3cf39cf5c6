import type { Tokens } from '@kv/core';
import type { Detector } from '../src/index.ts';

/**
 * A text cut into words with the space before them, and single signs; or into pieces of a few characters, as a
 * tokenizer that knows no words does.
 */
export const tokenise = (text: string, size?: number): Tokens => {
  const cuts = size ? new RegExp(`[^]{1,${size}}`, 'gu') : / ?[A-Za-z]+|[^]/gu,
    offsets = [...text.matchAll(cuts)].map((m) => [m.index, m.index + m[0].length] as const);
  return { ids: offsets.map((_, i) => i), text, offsets };
};
/** Returns the matched parts of a text. */
export const said = (find: (t: Tokens) => readonly { text: string }[], text: string): string[] =>
  find(tokenise(text)).map((m) => m.text);
/** Returns the positions of the anchors that a detector finds. */
export const positions = ({ run }: Detector, t: Tokens, beside?: unknown): readonly number[] =>
  run(t, beside).map((one) => (typeof one === 'number' ? one : one.position));
