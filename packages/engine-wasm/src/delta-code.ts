import { concatArrays } from '@kv/checkpoints';
import type { DeltaRule } from '@kv/engine';
import type { CodeStream } from './code-stream.ts';
import { addressOf as at, ops, real } from './instructions.ts';
import type { BufferSlice } from './layout.ts';
import type { WeightArena } from './weight-arena.ts';

/** A layer's gated delta rule. */
export interface DeltaShape
  extends Pick<DeltaRule, 'keyHeads' | 'valueHeads' | 'keyDim' | 'valueDim' | 'length' | 'eps' | 'keyHeadOf'> {
  /** Addresses of its taps `[length, channels]` and a bias of zeros, and of decay, time bias and gain one after the other. */
  readonly taps: number;
  readonly rule: number;
  /** Bytes from the first cache to the word that holds the address of its state. */
  readonly state: number;
}

/** Returns whether the module has code for a delta rule: for heads that are multiples of four numbers wide. */
export const runsDelta = ({ keyDim, valueDim }: Pick<DeltaRule, 'keyDim' | 'valueDim'>): boolean =>
  keyDim % 4 === 0 && valueDim % 4 === 0;

/** Returns the shape of a layer's delta rule, with its constants in the arena's memory. */
export const placeDelta = (
  arena: WeightArena,
  { taps, bias, decay, timeBias, gain, ...rule }: DeltaRule,
  state: number,
): DeltaShape => ({
  ...rule,
  taps: arena.array(concatArrays([taps, bias])),
  rule: arena.array(concatArrays([decay, timeBias, gain])),
  state,
});

/**
 * Writes the gated delta rule of rows `[q | k | v | z | b | a]`: threads claim key heads, each with the value heads that read
 * it. A token's recurrence takes 3 * valueHeads * keyDim * valueDim multiply-adds, at the shape of Qwen3.5-0.8B a tenth of a
 * prompt's time; chunks of 64 tokens, products of matrices, would take a third more of them.
 */
export function writeDelta(code: CodeStream, x: BufferSlice, shape: DeltaShape): BufferSlice {
  const { keyHeads, valueHeads, keyDim, valueDim, length, taps, rule, eps, state, keyHeadOf } = shape,
    { layout, sizes } = code,
    out = code.value(valueHeads * valueDim, true),
    scratch = layout.take(2, sizes.memoryScratch(keyDim, valueDim));
  code.use([[x, 'all']], [[out, 'pieces']], true);
  code.put(ops.delta, state, at(x), x.stride, at(out), out.stride, keyHeads, keyDim, valueHeads, valueDim);
  code.put(taps, length, rule, real(eps), Number(keyHeadOf === 'tiled'), scratch.at + 2);
  layout.give(scratch);
  return out;
}
