import { concatArrays } from '@kv/checkpoints';
import type { SpaceRule } from '@kv/engine';
import type { CodeStream } from './code-stream.ts';
import { addressOf as at, ops, real } from './instructions.ts';
import type { BufferSlice } from './layout.ts';
import type { WeightArena } from './weight-arena.ts';

/** A layer's state space. */
export interface SpaceShape
  extends Pick<SpaceRule, 'heads' | 'headDim' | 'groups' | 'stateDim' | 'timeStep' | 'length' | 'channels'> {
  /** Addresses of its taps `[length, channels]` and their bias, and of decay, time bias and skip one after the other. */
  readonly taps: number;
  readonly rule: number;
  /** Bytes from the first cache to the word that holds the address of its state. */
  readonly state: number;
}

/** Returns whether the module has code for a state space: for heads and a memory that are multiples of four numbers wide. */
export const runsSpace = ({ stateDim, headDim }: Pick<SpaceRule, 'stateDim' | 'headDim'>): boolean =>
  stateDim % 4 === 0 && headDim % 4 === 0;

/** Returns the shape of a layer's state space, with its constants in the arena's memory. */
export const placeSpace = (
  arena: WeightArena,
  { taps, bias, constants, ...rule }: SpaceRule,
  state: number,
): SpaceShape => ({
  ...rule,
  taps: arena.array(concatArrays([taps, bias])),
  rule: arena.array(constants),
  state,
});

/**
 * Writes the state space of rows `[z | x | B | C | dt]`: threads share the channels of the convolution, then claim heads.
 */
export function writeSpace(code: CodeStream, x: BufferSlice, shape: SpaceShape): BufferSlice {
  const { heads, headDim, groups, stateDim, timeStep, length, channels, taps, rule, state } = shape,
    { layout, sizes } = code,
    inner = heads * headDim,
    mixed = code.value(channels, true),
    out = code.value(inner, true),
    scratch = layout.take(2, sizes.memoryScratch(stateDim, headDim));
  code.use([[x, 'all']], [[mixed, 'pieces']]);
  code.put(ops.channels, state, at(x) + 4 * inner, x.stride, at(mixed), mixed.stride, channels, taps, length);
  code.use(
    [x, mixed].map((read) => [read, 'all']),
    [[out, 'pieces']],
    true,
  );
  code.put(ops.space, state, at(x), x.stride, at(mixed), mixed.stride, at(out), out.stride, heads, headDim, groups);
  code.put(stateDim, 4 * (length - 1) * channels, rule, ...timeStep.map(real), scratch.at + 2);
  layout.give(scratch);
  layout.give(mixed.room);
  return out;
}
