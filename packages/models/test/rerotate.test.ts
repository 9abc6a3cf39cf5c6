import { compose, rerotate } from '@kv/core';
import { readFileSync } from 'node:fs';
import { snapkv, streaming } from '@kv/scorers-attention';
import { knorm } from '@kv/scorers-knorm';
import { topK } from '@kv/selectors-top-k';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadModel, Sequence } from '../src/index.ts';
import type { Model } from '../src/index.ts';
import { relative } from '@kv/engine-testing/run';
import { fixture } from '@kv/model-testing/fixture';
import { reference, referenceJson } from '@kv/model-testing/reference';

const LENGTH = 120,
  BUDGET = 24,
  MORE = [11, 25, 7, 30, 3];
let ids: number[];
const models = new Map<string, Model>();
beforeAll(async () => {
  models.set('llama', await loadModel(reference('data/goldens/llama')));
  // a quarter of each head rotates, and layers that carry states lie between
  for (const cache of ['f32', 'q8'] as const)
    models.set(`qwen3_5, ${cache}`, await loadModel(fixture('qwen3_5'), { cache }));
  ids = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json').ids.slice(0, LENGTH);
});
/** Returns the logits of every token of MORE after the prompt, and the cache's contents. */
async function run(
  policy: ReturnType<typeof compose>,
  options: { window?: number; block?: number; every?: number },
  name = 'llama',
) {
  const model = models.get(name)!, // of the list above
    sequence = new Sequence(model, undefined, { ...(options.window !== undefined && { window: options.window }) }),
    logits: Float32Array[] = [];
  await sequence.prefill(
    ids.map((id) => id % model.config.vocab),
    { policy: policy as never, budget: BUDGET, block: options.block },
  );
  for (const id of MORE) {
    await sequence.step(id, options.every);
    logits.push((await sequence.logits()).at(-1)!);
  }
  const { layers, shift, ids: all } = await sequence.memory.snapshot(),
    rotations = layers.map(({ lengths, slots }) => {
      let at = 0;
      return lengths.map((n) => Array.from((slots.rotations ?? slots.positions).subarray(at, (at += n))));
    });
  const kept = sequence.kept();
  sequence.destroy();
  return { logits, rotations, kept, shift, length: all.length };
}

describe.each([
  ['streaming', streaming()],
  ['knorm, heads with other slots each', knorm()],
])('%s', (_, scorer) => {
  test('the kept slots stand at positions 0 .. n - 1 of the cache, and the tokens after them follow; original positions stay', async () => {
    const { rotations, kept, shift, length } = await run(compose(scorer, topK(), rerotate()) as never, {});
    for (const heads of rotations)
      for (const head of heads) expect(head).toEqual(Array.from({ length: BUDGET + MORE.length }, (_u, i) => i));
    expect(length - shift).toBe(BUDGET + MORE.length);
    expect(kept[0][0].at(-1)).toBe(LENGTH + MORE.length - 1);
  });
  test.each(['llama', 'qwen3_5, f32', 'qwen3_5, q8'])(
    '%s: the logits are those of a sequence whose window is full, which is moved together for that reason',
    async (name) => {
      const got = await run(compose(scorer, topK(), rerotate()) as never, {}, name),
        want = await run(compose(scorer, topK()) as never, { window: LENGTH }, name),
        other = await run(compose(scorer, topK()) as never, {}, name);
      got.logits.forEach((row, i) => expect(relative(row, want.logits[i])).toBeLessThan(1e-5));
      expect(relative(got.logits[0], other.logits[0])).toBeGreaterThan(1e-3);
    },
  );
});
test('scaled queries keep the scale of where they stand in the text, wherever kept slots are moved', async () => {
  const files = (text: string): ReadonlyMap<string, Blob> =>
      new Map([
        ['config.json', new Blob([text])],
        ...['tokenizer.json', 'model.safetensors'].map(
          (name) => [name, new Blob([readFileSync(fixture(`ministral3/${name}`))])] as const,
        ),
      ]),
    json = readFileSync(fixture('ministral3/config.json'), 'utf8'),
    every = 9,
    fed = [...ids, ...MORE].map((id) => id % 64),
    { angles } = (await loadModel(fixture('ministral3'))).decoder;
  /** Queries of the first layer, whose rows no scale reaches, as events read them. */
  const queries = async (text: string, cache: 'f32' | 'q8'): Promise<Float32Array> => {
    const model = await loadModel('/', { files: files(text), cache }),
      sequence = new Sequence(model);
    await sequence.prefill(fed.slice(0, LENGTH), {
      policy: compose(snapkv({ window: 8 }), topK(), rerotate()),
      budget: BUDGET,
      block: 50,
    });
    for (const id of fed.slice(LENGTH)) await sequence.step(id, 2);
    const { layers, shift } = await sequence.memory.snapshot();
    expect(shift).toBeGreaterThan(80);
    sequence.destroy();
    model.destroy();
    return layers[0].ring!.queries; // the policy looks at eight
  };
  expect(angles(0, Uint32Array.of(3), 4).scales).toBeUndefined();
  for (const cache of ['f32', 'q8'] as const) {
    const [scaled, plain] = [
      await queries(json, cache),
      await queries(json.replace('"llama_4_scaling_beta": 0.3,', ''), cache),
    ];
    const rows = 8,
      width = scaled.length / rows,
      first = fed.length - rows;
    for (let r = 0; r < rows; r++) {
      // token t lies at t % 8
      const position = first + ((r - first + 8 * fed.length) % rows),
        by = 1 + 0.3 * Math.log(1 + Math.floor(position / every)),
        row = (x: Float32Array): Float32Array => x.subarray(r * width, (r + 1) * width);
      expect(
        relative(
          row(scaled),
          row(plain).map((v) => v * by),
        ),
      ).toBeLessThan(1e-5);
    }
  }
});

test('where no layer rotates heads, moved slots change no logit', async () => {
  const name = 'granitemoehybrid',
    model = await loadModel(fixture(name));
  models.set(name, model);
  const policy = compose(knorm(), topK()) as never,
    [moved, kept] = [await run(compose(policy, rerotate()) as never, {}, name), await run(policy, {}, name)];
  expect(moved.shift).toBeGreaterThan(0);
  expect(moved.logits).toEqual(kept.logits);
  model.destroy();
});
test('after every block and every token, as StreamingLLM does', async () => {
  const { rotations, shift, length } = await run(compose(streaming(), topK(), rerotate()) as never, {
    block: 16,
    every: 1,
  });
  // rotated before the next token is appended
  expect(Math.max(...rotations.flat(2))).toBeLessThanOrEqual(BUDGET);
  expect(length - shift).toBe(BUDGET + 1);
});
