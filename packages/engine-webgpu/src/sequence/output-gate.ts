import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { encodeOutputGate } from '../operations.ts';

/**
 * Records what heads give times the sigmoid of their gates, where they have any, and frees both; else returns it.
 * @param queries `[H, m, d]`, of these heads
 */
export function gateOutputs(
  commands: Commands,
  attended: Tensor,
  gate: Tensor | undefined,
  { shape: [heads, , headDim] }: Tensor,
): Tensor {
  if (!gate) return attended;
  const out = encodeOutputGate(commands, attended, gate, heads * headDim);
  for (const spent of [attended, gate]) commands.free(spent);
  return out;
}
