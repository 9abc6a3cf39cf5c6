import { DynamicCache, Tensor } from '@huggingface/transformers';
import type { Cache, CacheLayer, HostArray, Policy } from '@kv/core';
import { each, engineLaws, type EngineHost, type EngineSequence } from '@kv/laws';
import { describe, test } from 'vitest';
import { withPolicy, type PolicyModel } from '../src/index.ts';
import { exported, type Exported } from './exported.ts';

type Model = PolicyModel<Exported['model']>;

/** A cache of this adapter as the laws of engines see it; its tokens are fed one by one, which no event follows. */
function hosted(model: Model, cache: DynamicCache): EngineSequence {
  const array = ({ data, dims }: Tensor): HostArray => ({ data: data as Float32Array, shape: dims.slice(1) });
  return {
    async feed(ids) {
      for (const id of ids)
        await model.forward({ input_ids: new Tensor('int64', [BigInt(id)], [1, 1]), past_key_values: cache } as never);
    },
    evict: (slots) => model.evict(cache, slots),
    async cache(): Promise<Cache> {
      const { positions, length } = model.stats(cache),
        entries = cache as unknown as Record<string, Tensor>;
      return {
        queryHeads: 4,
        length,
        layers: positions.map(
          (heads, l): CacheLayer => ({
            keys: array(entries[`past_key_values.${l}.key`]),
            values: array(entries[`past_key_values.${l}.value`]),
            positions: { data: Uint32Array.from(heads.flat()), shape: [heads.length, heads[0].length] },
          }),
        ),
      };
    },
    fork: async () => hosted(model, model.fork(cache)),
  };
}

describe.each(['ids', 'mask'] as const)('an export that takes positions from %s, as an engine', async (positions) => {
  const { model } = await exported({ positions }),
    host: EngineHost = {
      vocab: 1024,
      open: async (policy: Policy) => hosted(await withPolicy(model, { policy, budget: '100%' }), new DynamicCache()),
    };
  each(engineLaws(host, { runs: 5, turns: positions === 'mask' }), test);
});
