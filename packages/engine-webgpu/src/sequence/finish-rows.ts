import type { Tensor } from '@kv/core';
import type { Decoder } from '@kv/engine';
import type { Commands } from '@kv/gpu';
import type { DeviceRunnable } from '../engine.ts';
import type { TokenChunk } from './token-chunk.ts';

/**
 * Records what follows a layer's mixer, from x and what it made of it, both of which are freed, to the next layer's x.
 */
export function finishRows(
  { layers, rows }: Decoder<DeviceRunnable>,
  commands: Commands,
  layer: number,
  { x, m, layerInputs }: Pick<TokenChunk, 'x' | 'm' | 'layerInputs'>,
  mixed: Tensor,
): Tensor {
  const given = layerInputs ? [x, mixed, layerInputs] : [x, mixed],
    [next] = layers[layer].finish.encode(commands, given, m) as [Tensor];
  for (const spent of [x, mixed]) commands.free(spent);
  for (const count of [rows.output, rows.gateUp, rows.down]) count[layer] += m;
  return next;
}
