import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import type { DecoderLayer } from '@kv/engine';
import type { DeviceRunnable } from '../engine.ts';
import { encodeConvolution, encodeGatedDelta, encodeStateSpace } from '../operations.ts';
import { columns, rowsOf, type DeviceRowView } from '../rows.ts';
import type { DeviceState } from './device-state.ts';

/** Numbers of a row that a layer that carries a state takes, and of what it makes of it. */
export function carriedWidths({ convolution, delta, space }: DecoderLayer<DeviceRunnable>): {
  readonly taken: number;
  readonly given: number;
} {
  if (delta) {
    const given = delta.valueHeads * delta.valueDim;
    return { taken: delta.channels + given + 2 * delta.valueHeads, given };
  }
  if (space) {
    const given = space.heads * space.headDim;
    return { taken: given + space.channels + space.heads, given };
  }
  const { channels } = convolution!; // one of the three
  return { taken: 3 * channels, given: channels };
}

/** Options of `carry`. */
interface CarryOptions {
  /** The first row. @defaultValue 0 */
  readonly first?: number;
  /** Whether the tokens join the state of one more step in flight. @defaultValue false */
  readonly ahead?: boolean;
}

/**
 * Records what a layer of the model makes of m rows of `projected`, which its first program gave, after what its state
 * holds: `[m, width]`. The tokens join the state.
 */
export function carry(
  { decoder, kept, states }: DeviceState,
  commands: Commands,
  layer: number,
  projected: Tensor,
  m: number,
  { first = 0, ahead = false }: CarryOptions = {},
): Tensor {
  const carrying = decoder.layers[layer],
    { at } = kept.all[layer],
    { taken } = carriedWidths(carrying),
    rows = columns(rowsOf(projected, taken), first * taken, taken),
    next = states.make(at),
    out = mixed(commands, carrying, rows, m, states.newest(at), next);
  if (ahead) states.push(at, next);
  else states.replace(at, next);
  return out;
}

function mixed(
  commands: Commands,
  { project, convolution, delta, space }: DecoderLayer<DeviceRunnable>,
  rows: DeviceRowView,
  m: number,
  state: Tensor,
  next: Tensor,
): Tensor {
  const array = (numbers: Float32Array, ...shape: number[]): Tensor => project.array(numbers, shape);
  if (delta) {
    const { taps, bias, decay, timeBias, gain, length, channels, valueHeads, valueDim } = delta,
      rule = {
        ...delta,
        taps: array(taps, length, channels),
        bias: array(bias, channels),
        decay: array(decay, valueHeads),
        timeBias: array(timeBias, valueHeads),
        gain: array(gain, valueDim),
      };
    return encodeGatedDelta(commands, rows, m, rule, state, next);
  }
  if (space) {
    const { taps, bias, constants, length, channels, heads } = space,
      rule = {
        ...space,
        taps: array(taps, length, channels),
        bias: array(bias, channels),
        constants: array(constants, 3, heads),
      };
    return encodeStateSpace(commands, rows, m, rule, state, next);
  }
  const { taps, bias, length, channels } = convolution!, // one of the three
    kernel = { taps: array(taps, length, channels), bias: array(bias, channels) };
  return encodeConvolution(commands, rows, m, kernel, state, next);
}
