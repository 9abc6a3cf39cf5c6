import type { HostArray, StepContext, Tokens } from '@kv/core';
import { byPosition } from './detector.ts';
import type { Anchor } from './detector.ts';
import { tokenBefore, valueAfter } from './value-extent.ts';

/** Values by position, and how many of them were longer than `most` tokens. */
interface WholeValues {
  readonly row: HostArray;
  readonly cut: number;
}
const cuts = new WeakMap<HostArray, number>();

/**
 * Returns the worth of every token from after an anchor to the token that ends its value, such as a quote or a line's
 * end: without that, a model does not know where to stop. The largest where values overlap, and 0 elsewhere, f32 `[1,
 * length]`. All tokens of a value are worth the same. Of one that has more than `most` tokens the first `most` count.
 */
export function wholeValues(
  ctx: StepContext & { readonly tokens: Tokens },
  owner: object,
  most: number,
  anchors: () => readonly Anchor[],
): WholeValues {
  const { text, offsets } = ctx.tokens;
  let cut = 0;
  const row = byPosition(ctx, owner, (data) => {
    for (const { position, value, worth = 1 } of anchors()) {
      const [start, end] = value ?? valueAfter(text, offsets[position]?.[1] ?? 0);
      if (end <= start) continue;
      // the token of the anchor holds the value's first characters where it reaches beyond the anchor
      const own = position >= 0 && offsets[position]?.[1] > start ? position : position + 1,
        last = tokenBefore(end, offsets),
        until = Math.min(last > own + most - 1 ? own + most - 1 : last + 1, data.length - 1);
      if (last > own + most - 1) cut++;
      for (let i = own; i <= until; i++) data[i] = Math.max(data[i], worth);
    }
  });
  if (!cuts.has(row)) cuts.set(row, cut);
  return { row, cut: cuts.get(row) ?? 0 };
}
