import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { encodeConvolution } from '../operations.ts';
import type { DeviceRowView } from '../rows.ts';
import type { DeviceState } from './device-state.ts';

/**
 * Records the short convolution of m rows `[B | C | u]` of a layer of the model, after what its state holds: `[m,
 * channels]`. The tokens join the state, or, `ahead`, that of one more step in flight.
 */
export function convolve(
  { decoder, kept, states }: DeviceState,
  commands: Commands,
  layer: number,
  rows: DeviceRowView,
  m: number,
  ahead = false,
): Tensor {
  const { project, convolution } = decoder.layers[layer],
    { at } = kept.all[layer],
    { taps, bias, length, channels } = convolution!, // of a layer that carries a state
    next = states.make(at),
    out = encodeConvolution(
      commands,
      rows,
      m,
      { taps: project.array(taps, [length, channels]), bias: project.array(bias, [channels]) },
      states.newest(at),
      next,
    );
  if (ahead) states.push(at, next);
  else states.replace(at, next);
  return out;
}
