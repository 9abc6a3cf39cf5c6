import { KvError } from '@kv/core';
import { Tensor } from '@huggingface/transformers';
import type { DynamicCache } from '@huggingface/transformers';
import type { TransformersModel } from './shape.ts';

export type ModelInputs = {
  input_ids?: Tensor;
  attention_mask?: Tensor;
  position_ids?: Tensor | null;
  past_key_values?: DynamicCache | null;
} & { [name: string]: unknown };
export type ModelOutputs = { [name: string]: Tensor };
/** Internal members of a transformers.js model that are used. */
export interface InnerModel extends TransformersModel {
  _forward(self: unknown, inputs: ModelInputs): Promise<ModelOutputs>;
  prepare_inputs_for_generation(ids: unknown, inputs: ModelInputs, config: unknown): ModelInputs;
}

export const idsTensor = (ids: readonly number[]): Tensor =>
  new Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]);
export const onesTensor = (n: number): Tensor => new Tensor('int64', new BigInt64Array(n).fill(1n), [1, n]);

/**
 * Returns the ids of the input. @throws KvError for more than one sequence, for padding, and for inputs without ids.
 */
export function idsOf({ input_ids: ids, attention_mask: mask }: ModelInputs): number[] {
  if (!ids) throw new KvError('generate', 'expected input_ids, got none');
  const [batch, length] = ids.dims;
  if (ids.dims.length !== 2 || batch !== 1)
    throw new KvError('generate', `expected one sequence at a time, got input_ids of [${ids.dims.join(', ')}]`);
  if (length === 0) throw new KvError('generate', 'expected a prompt of at least one token, got none');
  if (mask && (mask.data as BigInt64Array).some((x) => Number(x) !== 1))
    throw new KvError('generate', 'expected a sequence without padding, got an attention_mask with a 0');
  return Array.from(ids.data as BigInt64Array, Number);
}
