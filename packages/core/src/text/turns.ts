import type { Tokens } from '../piece/signals.ts';

/** A turn of a conversation: tokens `[start, end)`, and who speaks; `''` for what comes before the first turn. */
export interface Turn {
  readonly start: number;
  readonly end: number;
  readonly role: string;
}

/** Names of roles as chat templates write them. */
const ROLE = /(?:system|developer|user|human|assistant|model|tool|function|ipython|environment|observation)/y;

/**
 * Returns the turns of the first `length` tokens, in order and without gaps. A turn begins at a token without text, as
 * special tokens are, that is followed by the name of a role, which a line break, another such token or the end
 * follows: `<|im_start|>user`, `<|start_header_id|>user<|end_header_id|>`, `<start_of_turn>user`.
 */
export function turnsOf({ text, offsets }: Tokens, length: number = offsets.length): readonly Turn[] {
  const silent = (i: number): boolean => i >= length || offsets[i][0] === offsets[i][1];
  const roleAfter = (i: number): string | undefined => {
    if (silent(i + 1)) return undefined;
    ROLE.lastIndex = offsets[i][1];
    const [role] = ROLE.exec(text) ?? [],
      end = ROLE.lastIndex;
    if (role === undefined) return undefined;
    let next = i + 2;
    while (!silent(next) && offsets[next][1] <= end) next++;
    const whole = offsets[next - 1][1] === end; // the name ends where a token does
    return text[end] === '\n' || (whole && silent(next)) ? role : undefined;
  };
  const found: { start: number; role: string }[] = [{ start: 0, role: '' }];
  for (let i = 0; i < length; i++) {
    const role = silent(i) ? roleAfter(i) : undefined;
    if (role !== undefined) found.push({ start: i, role });
  }
  return found
    .map(({ start, role }, t) => ({ start, end: found[t + 1]?.start ?? length, role }))
    .filter(({ start, end }) => start < end);
}
