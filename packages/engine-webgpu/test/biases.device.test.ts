import { inTurn } from '@kv/model-testing/in-turn';
import { loadCache, saveCache, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { policy as policyOf } from '@kv/policies';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { both, fixture, relative } from './sequences.ts';

const gpuTest = await gpuTests();
const ids = Array.from({ length: 90 }, (_, i) => (i * 37 + (i >> 3)) % 64);

for (const text of inTurn(
  [
    'snapkv(window=6) | topK | fit(queries=8,ridge=0.03)',
    'h2o(recent=4) | topK | fit(queries=5,ridge=0.03)',
    'snapkv(window=6) | topK | fit(queries=6,from=future,ridge=0.03)',
    'snapkv(window=6) | topK | fit(queries=6,from=repeat,ridge=0.03)',
    'snapkv(window=6) | topK | moments(spread=true)',
    'h2o(recent=4) | topK | moments | fit(queries=5,ridge=0.03)',
  ],
  3,
))
  gpuTest(`what ${text} refits or folds attends, is saved, copied and refitted again as on the host`, (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      const policy = policyOf(text);
      const run = async (model: Model) => {
          const sequence = new Sequence(model);
          await sequence.prefill(ids.slice(0, 36), { policy, budget: 16, block: 20 });
          for (const id of ids.slice(36, 42)) await sequence.step(id, 3);
          const loaded = await loadCache(model, await saveCache(sequence), { policy }),
            [copy, other] = [sequence.fork(), sequence.fork()];
          await other.evict(policyOf('knorm | topK'), 12); // what attention added goes on
          for (const each of [sequence, loaded, copy, other]) await each.append(ids.slice(70, 75), { rows: 2 });
          const all = await Promise.all([sequence, loaded, copy, other].map((each) => each.logits())),
            kept = sequence.kept();
          for (const each of [sequence, loaded, copy, other]) each.destroy();
          return { kept, all };
        },
        [got, want] = [await run(device), await run(host)];
      expect(got.kept).toEqual(want.kept);
      got.all.forEach((rows, i) =>
        rows.forEach((row, r) => expect(relative(row, want.all[i === 3 ? 3 : 0][r])).toBeLessThan(5e-3)),
      );
    }),
  );
