import { count, number } from '@kv/core';
import type { HostArray, StepContext, Tensor } from '@kv/core';
import { aging } from './freshness.ts';
import { vouchers } from './vouchers.ts';

/** What is left of a voucher one token further from its anchor. */
const FALLOFF = 0.8;

/** Options of what vouches; `strength` is what a sure anchor is worth. */
export const vouchingOptions = (strength: number) => ({
  reach: count(6, 'tokens', 'Tokens after an anchor that it sponsors, L; a longer value is covered in part.'),
  strength: number(strength, 'Sponsor budget B of an anchor.', { least: 0 }),
  ...aging.options,
});

/** `strength` times what the row by position says of every anchor, spread over the tokens after it. */
export const vouchFor = (
  { ops, positions, fresh }: StepContext & { readonly positions: Tensor; readonly fresh: Tensor },
  anchors: HostArray,
  { reach, strength }: { readonly reach: number; readonly strength: number },
): Tensor =>
  ops.mul(
    ops.kernel(vouchers, { budgets: ops.from(anchors), fresh, positions }, { reach, falloff: FALLOFF }),
    strength,
  );
