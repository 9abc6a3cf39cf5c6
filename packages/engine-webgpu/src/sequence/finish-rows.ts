import type { Tensor } from '@kv/core';
import type { Decoder } from '@kv/engine';
import type { Commands } from '@kv/gpu';
import type { DeviceRunnable } from '../engine.ts';
import { columns, rowsOf } from '../rows.ts';
import type { TokenChunk } from './token-chunk.ts';

/**
 * Records what follows a layer's mixer, from x and what it made of it, both of which are freed, to the next layer's x.
 */
export function finishRows(
  { layers, rows }: Decoder<DeviceRunnable>,
  commands: Commands,
  layer: number,
  { x, m, perLayer }: Pick<TokenChunk, 'x' | 'm' | 'perLayer'>,
  mixed: Tensor,
): Tensor {
  const own = perLayer?.shape[1],
    width = own && own / layers.length,
    inputs = width ? [columns(rowsOf(perLayer, own), layer * width, width)] : [],
    [next] = layers[layer].finish.encode(commands, [x, mixed, ...inputs], m) as [Tensor];
  for (const spent of [x, mixed]) commands.free(spent);
  for (const count of [rows.output, rows.gateUp, rows.down]) count[layer] += m;
  return next;
}
