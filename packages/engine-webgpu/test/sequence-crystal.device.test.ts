import { compose, weightScorer } from '@kv/core';
import type { Policy, ProviderEngine, Signal } from '@kv/core';
import { generate } from '@kv/models';
import type { Model } from '@kv/models';
import { policy as policyOf } from '@kv/policies';
import { topK } from '@kv/selectors-top-k';
import { collector, foldedCollector } from '@kv/units-trunks';
import type { CoAttention } from '@kv/units-trunks';
import { expect } from 'vitest';
import { byTurns, gpuTests } from './device.ts';
import { both, fixture, onDevice, relative, said } from './sequences.ts';

const oneOf = byTurns(await gpuTests(), ['cycle', 'edges']);
const ids = Array.from({ length: 48 }, (_, i) => (i * 37 + 11) % 64);

// layers that carry states, and gates of what heads give, in addition to what Llama has
for (const name of process.env.KV_FULL === '1' ? ['llama', 'qwen3_5'] : ['qwen3_5'])
  oneOf('cycle')(
    `${name}: the breath cycle runs on the device, but for the text that it cuts by the edges it reads, and keeps what the host keeps`,
    (gpu) =>
      both(gpu, fixture(name), async (host, device) => {
        const policy = policyOf('crystalcacheBreath', { sinks: 1, recent: 4, maxSize: 6, interval: 4 }),
          options = { ids, policy, budget: 16, maxNewTokens: 10 },
          want = await generate(host, options);
        // the edges are read before the text is cut
        const got = await onDevice(
          gpu,
          device,
          options,
          ({ events = 0, providerPasses = 0 }) => events + providerPasses,
        );
        expect(got.tokens).toEqual(want.tokens);
        expect(said(got.report)).toEqual(said(want.report));
        expect(got.report.counts).toMatchObject({ events: 3, providerPasses: 3 });
      }),
  );

/** Edges and saliency as an event sees them, over chunks of 16, of the prompt and then of generated tokens too. */
function probe(seen: CoAttention[], fold: (engine: ProviderEngine, prompt: number) => Promise<CoAttention>): Policy {
  const edges: Signal<'edges', CoAttention> = {
    id: 'probe.edges',
    as: 'edges',
    cost: 'pass',
    provide: async (engine, l) => {
      const found = await fold(engine, engine.promptLength);
      if (l === 0) seen.push(found);
      return found;
    },
  };
  return compose(
    weightScorer('probe', { needs: [edges] }, ({ ops, at }) =>
      ops.from({ data: Float32Array.from({ length: at.slots }, (_, i) => i), shape: [1, at.slots] }),
    )(),
    topK(),
  );
}

oneOf('edges')(
  'edges and saliency folded on the device are those of whole rows on the host, of chunks of 16 and a sliding window',
  (gpu) =>
    both(gpu, fixture('gemma2'), async (host, device) => {
      const edges = async (model: Model, make: typeof collector | typeof foldedCollector): Promise<CoAttention[]> => {
        const seen: CoAttention[] = [];
        let kept: { readonly made: ReturnType<typeof make>; length: number } | undefined;
        await generate(model, {
          ids,
          budget: 40,
          maxNewTokens: 9,
          every: 4,
          policy: probe(seen, async (engine, prompt) => {
            kept ??= { made: make({ chunk: 16, prompt }), length: 0 };
            const { made } = kept,
              from = kept.length;
            if (from === engine.ids.length) return made.take();
            kept.length = engine.ids.length;
            if ('fold' in made) await made.fold(engine, from);
            else await engine.attentionRows(0, made.add, from);
            return made.take();
          }),
        });
        return seen;
      };
      const want = await edges(host, collector),
        got = await edges(device, foldedCollector);
      expect(want.map(({ saliency }) => saliency.length)).toEqual([48, 52, 56]);
      expect(want[2].to.length).toBeGreaterThan(want[0].to.length);
      for (const [i, { from, to, weight, saliency }] of want.entries()) {
        expect({ from: got[i].from, to: got[i].to }).toEqual({ from, to });
        expect(relative(got[i].weight, weight)).toBeLessThan(1e-5);
        expect(relative(got[i].saliency, saliency)).toBeLessThan(1e-5);
      }
    }),
);
