import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import type { ModelConfig } from '@kv/checkpoints';
import { encodeOutputGate } from '../operations.ts';

/**
 * Records what heads give, rows of H * d, times the sigmoid of their gates, where they have any, and frees both; else returns
 * it.
 */
export function gateOutputs(
  commands: Commands,
  { queryHeads, headDim }: Pick<ModelConfig, 'queryHeads' | 'headDim'>,
  attended: Tensor,
  gate: Tensor | undefined,
): Tensor {
  if (!gate) return attended;
  const out = encodeOutputGate(commands, attended, gate, queryHeads * headDim);
  for (const spent of [attended, gate]) commands.free(spent);
  return out;
}
