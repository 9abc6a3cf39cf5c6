import type { HostArray, StepContext, Tokens } from '@kv/core';
import { byPosition } from './detector.ts';
import type { Anchor } from './detector.ts';
import { nameBefore, tokenBefore, valueAfter } from './value-extent.ts';

/** Values by position, and how many of them were longer than `most` tokens. */
interface WholeValues {
  readonly row: HostArray;
  readonly cut: number;
}
/** What a name is worth of its value: less than any value that is there for the first time, so none is cut for it. */
const NAME = 0.5;
const cuts = new WeakMap<HostArray, number>();

/**
 * Returns the worth of every token of values: from the beginning of a value's name, at most `lead` tokens before it, to
 * the token that ends it, such as a quote or a line's end. Without a name nothing says what the value is of, and without
 * an end a model does not know where to stop. The largest where values overlap, and 0 elsewhere, f32 `[1, length]`. All
 * tokens of a value are worth the same, those of its name half as much. Of one that has more than `most` tokens the
 * first `most` count.
 */
export function wholeValues(
  ctx: StepContext & { readonly tokens: Tokens },
  owner: object,
  { most, lead }: { readonly most: number; readonly lead: number },
  anchors: () => readonly Anchor[],
): WholeValues {
  const { text, offsets } = ctx.tokens;
  let cut = 0;
  const row = byPosition(ctx, owner, (data) => {
    for (const { position, value, title, worth = 1 } of anchors()) {
      const [start, end] = value ?? valueAfter(text, offsets[position]?.[1] ?? 0);
      if (end <= start) continue;
      // the token of the anchor holds the value's first characters where it reaches beyond the anchor
      const own = position >= 0 && offsets[position]?.[1] > start ? position : position + 1,
        last = tokenBefore(end, offsets),
        until = Math.min(last > own + most - 1 ? own + most - 1 : last + 1, data.length - 1);
      if (last > own + most - 1) cut++;
      const named = Math.max(own - lead, Math.min(own, tokenBefore(nameBefore(text, start) + 1, offsets)));
      raise(data, own, until, worth);
      raise(data, named, own - 1, worth * NAME);
      if (title && lead > 0)
        raise(data, tokenBefore(title[0] + 1, offsets), tokenBefore(title[1], offsets), worth * NAME);
    }
  });
  if (!cuts.has(row)) cuts.set(row, cut);
  return { row, cut: cuts.get(row) ?? 0 };
}
/** Makes `data` at least `worth` from one token to another. */
function raise(data: Float32Array, from: number, until: number, worth: number): void {
  for (let i = Math.max(0, from); i <= until && i < data.length; i++) data[i] = Math.max(data[i], worth);
}
