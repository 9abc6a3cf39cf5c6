import type { DeltaRule } from '@kv/engine';
import type { CodeStream } from './code-stream.ts';
import { addressOf as at, ops, real } from './instructions.ts';
import type { BufferSlice } from './layout.ts';
import type { WeightArena } from './weight-arena.ts';

/** A layer's gated delta rule. */
export interface DeltaShape
  extends Pick<
    DeltaRule,
    'keyHeads' | 'valueHeads' | 'keyDim' | 'valueDim' | 'length' | 'channels' | 'eps' | 'keyHeadOf'
  > {
  /** Addresses of its taps `[length, channels]`, and of decay, time bias and gain one after the other. */
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
  { taps, decay, timeBias, gain, ...rule }: DeltaRule,
  state: number,
): DeltaShape => ({
  ...rule,
  taps: arena.array(taps),
  rule: arena.array(Float32Array.of(...decay, ...timeBias, ...gain)),
  state,
});

/**
 * Writes the gated delta rule of rows `[q | k | v | z | b | a]`: threads claim heads, of q, k and v for the convolution and of
 * v for the memory, and take them through all rows. The memory takes valueHeads * keyDim * valueDim * 3 multiply-adds a
 * token.
 */
export function writeDelta(code: CodeStream, x: BufferSlice, shape: DeltaShape): BufferSlice {
  const { keyHeads, valueHeads, keyDim, valueDim, length, channels, taps, rule, eps, state } = shape,
    { layout, rows } = code,
    mixed = code.value(channels, true),
    out = code.value(valueHeads * valueDim, true),
    // a line of each row of a memory, and two gates of each token
    scratch = layout.take(2, 64 * keyDim + 32 * rows);
  code.use([[x, 'all']], [[mixed, 'pieces']], true);
  code.put(ops.heads, state, at(x), x.stride, at(mixed), mixed.stride, keyHeads, keyDim, channels, valueHeads);
  code.put(valueDim, taps, length);
  code.use(
    [
      [mixed, 'all'],
      [x, 'all'],
    ],
    [[out, 'pieces']],
    true,
  );
  code.put(ops.delta, state, at(mixed), mixed.stride, at(x), x.stride, at(out), out.stride, keyHeads, keyDim);
  code.put(valueHeads, valueDim, channels, 4 * (length - 1) * channels, rule, real(eps));
  code.put(Number(shape.keyHeadOf === 'tiled'), scratch.at + 2);
  layout.give(scratch);
  layout.give(mixed.room);
  return out;
}
