import { count, number } from '@kv/core';
import type { HostArray, StepContext, Tensor } from '@kv/core';
import { aging } from './freshness.ts';
import { vouchers } from './vouchers.ts';

/** Factor of a voucher for each further token from its anchor. */
const FALLOFF = 0.8;

/** Options of a scorer of vouchers; `strength` is the default worth of a certain anchor. */
export const vouchingOptions = (strength: number) => ({
  reach: count(6, 'tokens', 'Tokens after an anchor that it sponsors, L; a longer value is covered in part.'),
  strength: number(strength, 'Sponsor budget B of an anchor.', { least: 0 }),
  ...aging.options,
});

/** Returns `strength` times the row `anchors` by position, each anchor's number spread over the tokens after it. */
export const vouchFor = (
  { ops, positions, fresh }: StepContext & { readonly positions: Tensor; readonly fresh: Tensor },
  anchors: HostArray,
  { reach, strength }: { readonly reach: number; readonly strength: number },
): Tensor =>
  ops.mul(
    ops.kernel(vouchers, { budgets: ops.from(anchors), fresh, positions }, { reach, falloff: FALLOFF }),
    strength,
  );
