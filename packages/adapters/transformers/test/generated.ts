import type { PreTrainedModel, Tensor } from '@huggingface/transformers';

export const idsOf = (tensor: unknown): number[] => Array.from((tensor as Tensor).data as BigInt64Array, Number);

export interface Prompted {
  readonly input_ids: Tensor;
  readonly attention_mask: Tensor;
}

/** The generated ids alone. */
export async function generated(
  model: PreTrainedModel,
  inputs: Prompted,
  options: { readonly max_new_tokens: number; readonly [name: string]: unknown },
): Promise<number[]> {
  const all = await model.generate({ ...inputs, do_sample: false, ...options } as never);
  return idsOf(all).slice(inputs.input_ids.dims[1]);
}

export const TEXT =
  'The key of Ana is 4821. The sky was grey over the town, and the boats lay still. The key of Bo is 9377. No one came to the market on that day. What is the key of Ana?';
