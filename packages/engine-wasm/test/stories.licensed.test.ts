import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { greedy, lastAttention, referenceEngine } from '@kv/engine';
import type { HostDecoder } from '@kv/engine';
import { loadLlama2c } from './llama2c.ts';
import { emptyCaches, relative, run } from '@kv/engine-testing/run';
import { modules } from './modules.ts';
import { wasmEngine } from '../src/engine.ts';

interface Stories {
  readonly greedy_from_bos: { readonly ids: number[] };
  readonly logits_first4: number[][];
  readonly argmax_first64: number[];
  readonly attention_at_pos15: number[][][];
  readonly stories: readonly {
    readonly ids: number[];
    readonly sum_nll_full: number;
    readonly sink_window: readonly { readonly sinks: number; readonly budget: number; readonly sum_nll: number }[];
  }[];
}

/** Weights of others under the MIT licence: they are not part of this repository. */
const shared = process.env['KV_SHARED'];
const weights = (): Uint8Array => readFileSync(`${shared}/data/models/stories260K.bin`);
const golden = (): Stories =>
  JSON.parse(readFileSync(`${shared}/data/models/stories260K.golden.json`, 'utf8')) as Stories;

/**
 * The sum of -log p of each id after the first, the cache held at `budget` by dropping its oldest non-sink slot after
 * each step.
 */
async function negativeLogLikelihood(
  decoder: HostDecoder,
  ids: readonly number[],
  sinks = 0,
  budget = Infinity,
): Promise<number> {
  const caches = emptyCaches(decoder);
  let sum = 0;
  for (let t = 0; t + 1 < ids.length; t++) {
    const [row] = (await run(decoder, caches, [ids[t]], { start: t })) as [Float32Array];
    const max = row[greedy(row)];
    sum += max + Math.log(row.reduce((total, x) => total + Math.exp(x - max), 0)) - row[ids[t + 1]];
    for (const cache of caches) {
      const n = cache.length;
      if (n > budget)
        cache.keep(
          Array.from({ length: cache.heads }, () => Uint32Array.from([...Array(n).keys()].filter((j) => j !== sinks))),
          1,
        );
    }
  }
  return sum;
}

const onModule = wasmEngine(modules.at(-1)![1], { exact: true }); // form 0 is here wherever tests run

describe.skipIf(shared === undefined).each([
  ['module', onModule],
  ['plain loops', referenceEngine()],
] as const)('stories260K on the %s', (_, engine) => {
  let decoder: HostDecoder;
  beforeAll(async () => {
    decoder = await loadLlama2c(weights(), engine);
  });

  test('logits of the first 4 positions, the likeliest token at 64', async () => {
    const ids = golden().greedy_from_bos.ids.slice(0, 64);
    const rows = await run(decoder, emptyCaches(decoder), ids, { want: [...ids.keys()] });
    golden().logits_first4.forEach((want, i) => expect(relative(rows[i], want)).toBeLessThan(1e-5));
    expect(rows.map(greedy)).toEqual(golden().argmax_first64);
  });

  test('attention of position 15 in the first two layers', async () => {
    const caches = emptyCaches(decoder);
    await run(decoder, caches, golden().greedy_from_bos.ids.slice(0, 16), {
      watch(layer, { q }, positions) {
        const want = golden().attention_at_pos15[layer];
        if (want !== undefined)
          expect(
            relative(lastAttention({ queries: q, queryPositions: positions, cache: caches[layer] }), want.flat()),
          ).toBeLessThan(1e-5);
      },
    });
  });

  test('256 greedy tokens from <s>', async () => {
    const caches = emptyCaches(decoder);
    const ids = golden().greedy_from_bos.ids.slice(0, 1);
    while (ids.length < golden().greedy_from_bos.ids.length)
      ids.push(greedy((await run(decoder, caches, ids.slice(-1), { start: ids.length - 1 }))[0]));
    expect(ids).toEqual(golden().greedy_from_bos.ids);
  });
});

test.skipIf(shared === undefined)('likelihood of two stories, whole and with sinks and a window', async () => {
  const decoder = await loadLlama2c(weights(), onModule);
  for (const [i, { ids, sum_nll_full, sink_window }] of golden().stories.entries()) {
    expect((await negativeLogLikelihood(decoder, ids)) / sum_nll_full).toBeCloseTo(1, 5);
    for (const { sinks, budget, sum_nll } of i === 0 ? sink_window : sink_window.slice(1, 2))
      expect((await negativeLogLikelihood(decoder, ids, sinks, budget)) / sum_nll).toBeCloseTo(1, 5);
  }
});
