import type { ProviderEngine, Tensor } from '@kv/core';
import type { Sequence } from './sequence.ts';

/** What a provider may do with a sequence: each distinct pass runs once and serves every layer. */
export function observe(sequence: Sequence, onPass: () => void): ProviderEngine {
  const passes = new Map<string, ReturnType<Sequence['observeMax']>>();
  const { tokenizer } = sequence.model;
  return {
    ids: sequence.tokens.ids,
    encode: (text) => tokenizer.encode(text, { special: false }).ids,
    decode: (ids) => tokenizer.decode(ids),
    async observeMax(ids, layer): Promise<Tensor> {
      const key = ids.join(',');
      if (!passes.has(key)) { onPass(); passes.set(key, sequence.observeMax(ids)); }
      return sequence.backend.ops.from((await passes.get(key)!)[layer]!);
    },
  };
}
