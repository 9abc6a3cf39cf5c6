import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { as, biases, compose, onCompact, positions, queries, weightScorer } from '@kv/core';
import type { PlacedQueries, Signal, Tensor } from '@kv/core';
import { readCpu } from '@kv/cpu';
import { referenceEngine, slotSizes, stepTogether } from '@kv/engine';
import { writeTinyModel } from '@kv/model-testing';
import { fixture } from '@kv/model-testing/fixture';
import { h2o, snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { fit, repeatedQueries } from '@kv/transforms-fit';
import { afterAll, expect, test } from 'vitest';
import { cpuRuntime, generate, hostRuntime, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'kv-biases-'));
afterAll(() => rmSync(folder, { recursive: true }));
const path = writeTinyModel(folder, { layers: 3 }),
  model = await loadModel(path, { runtime: cpuRuntime({ exact: true }) }),
  ids = Array.from({ length: 120 }, (_, i) => (i * 37 + (i >> 3)) % 250),
  policy = compose(snapkv({ window: 6 }), topK(), fit({ queries: 8 }));
const near = (got: readonly Float32Array[], want: readonly Float32Array[]): void =>
  got.forEach((row, r) => row.forEach((x, i) => expect(Math.abs(x - want[r][i])).toBeLessThan(2e-3)));

test.each([policy, compose(h2o({ recent: 4 }), topK(), fit({ queries: 5 }))])(
  '$label: blocks, tokens and events of the module are those of plain loops',
  async (policy) => {
    const plain = await loadModel(path, { runtime: hostRuntime({ engine: referenceEngine() }) }),
      run = async (of: typeof model) => {
        const sequence = new Sequence(of);
        await sequence.prefill(ids.slice(0, 80), { policy, budget: 16, block: 20 });
        for (const id of ids.slice(80, 90)) await sequence.step(id, 4);
        await sequence.append(ids.slice(90, 99), { rows: 3 });
        return sequence;
      },
      [got, want] = [await run(model), await run(plain)];
    expect(got.kept()).toEqual(want.kept());
    near(await got.logits(), await want.logits());
    const held = (sequence: Sequence) =>
      (sequence.memory.caches as never as Held).layers.map(({ cache }) => cache.biases);
    expect(held(got).every((biases) => biases)).toBe(true);
  },
);
/** What tests look at of caches on the host. */
interface Held {
  readonly layers: readonly { readonly cache: { readonly biases?: { readonly data: Float32Array } } }[];
}

test.each([path, fixture('gemma4')])(
  'queries while %s repeats are those of a model that reads the repetition',
  async (of) => {
    const model = await loadModel(of, { runtime: hostRuntime({ engine: referenceEngine() }) }),
      { tokenizer, config } = model,
      own = ids.slice(0, 20).map((id) => id % Math.min(60, config.vocab)),
      instruction = tokenizer.encode('\n\nRepeat the previous context exactly.\n', { special: false }).ids,
      all = [...own, ...instruction, ...own],
      w = 7;
    /** Queries `[layer][head][query][channel]` that a scorer reads after these ids. */
    const seen = async (signal: Signal<'them', Tensor | PlacedQueries>, read: readonly number[]) => {
      const layers: { readonly at: readonly number[]; readonly rows: readonly number[][][] }[] = [];
      const look = weightScorer('look', { needs: [signal, positions] }, ({ them, ops, positions: p }) => {
        const { queries, positions: at } = 'queries' in them ? them : { queries: them, positions: [] },
          { data, shape } = readCpu(queries),
          [H = 0, count = 0, d = 0] = shape;
        layers.push({
          at: [...at],
          rows: Array.from({ length: H }, (_, h) =>
            Array.from({ length: count }, (__, i) => [...data.subarray((h * count + i) * d, (h * count + i + 1) * d)]),
          ),
        });
        return ops.mul(p, 0);
      });
      const sequence = new Sequence(model);
      await sequence.prefill(read, { policy: compose(look(), topK()), budget: read.length - 1, block: 16 });
      sequence.destroy();
      return layers;
    };
    const got = await seen(as('them', repeatedQueries(w)) as never, own),
      want = await seen(as('them', queries(all.length)), all);
    expect(got).toHaveLength(want.length);
    got.forEach(({ at, rows }, l) => {
      expect(at).toEqual(Array.from({ length: w }, (_, i) => all.length - 20 + Math.floor(((i + 1) * 20) / w) - 1));
      rows.forEach((head, h) =>
        head.forEach((query, i) => query.forEach((x, c) => expect(x).toBeCloseTo(want[l].rows[h][at[i]][c], 3))),
      );
    });
    model.destroy();
  },
);

test('a repetition that exceeds the context is one sentence, before the prompt is read', async () => {
  const sequence = new Sequence(model);
  await expect(
    sequence.prefill([...ids, ...ids.slice(0, 20)], {
      policy: compose(snapkv(), topK(), fit({ from: 'repeat' })),
      budget: 64,
    }),
  ).rejects.toThrow(
    /^policy: '.*' reads 179 tokens once more over the prompt, which together must fit the model's context of 256 tokens, got 319: take a shorter prompt, about half the context, or a policy without a second pass$/,
  );
  // before the prompt was read
  expect(sequence.progress.length).toBe(0);
  await sequence.prefill(ids.slice(0, 9));
  sequence.destroy();
});

test.each(['future', 'repeat'] as const)('a fit from %s attends, steps and evicts again', async (from) => {
  const sequence = new Sequence(model),
    policy = compose(snapkv({ window: 6 }), topK(), fit({ queries: 8, from }));
  await sequence.prefill(ids.slice(0, 50), { policy, budget: 16 });
  for (const id of ids.slice(50, 56)) await sequence.step(id, 4);
  const held = (sequence.memory.caches as never as Held).layers.map(({ cache }) => cache.biases);
  expect(held.every((biases) => biases?.data.some((x) => x !== 0))).toBe(true);
  sequence.destroy();
  expect([sequence.memory.ledger.live, sequence.memory.ledger.allocated]).toEqual([0, 0]);
});

test('copies and sequences that step together go on alike', async () => {
  const first = new Sequence(model);
  await first.prefill(ids.slice(0, 60), { policy, budget: 12 });
  const [second, third] = [first.fork(), first.fork()];
  await stepTogether([
    { sequence: first, token: 5 },
    { sequence: second, token: 7 },
  ] as never);
  await third.step(5);
  near(await first.logits(), await third.logits());
  // its biases are its own
  await second.evict(policy, 8);
  await first.step(9);
  await third.step(9);
  near(await first.logits(), await third.logits());
  for (const each of [first, second, third]) {
    each.destroy();
    expect([each.memory.ledger.live, each.memory.ledger.allocated]).toEqual([0, 0]);
  }
});

test('a file says that slots have biases by its version; one that is not finite is an error', async () => {
  const file = async (of: typeof policy | undefined) => {
      const sequence = new Sequence(model);
      await sequence.prefill(ids.slice(0, 40), of ? { policy: of, budget: 12 } : {});
      return saveCache(sequence);
    },
    [with_, without] = [await file(policy), await file(undefined)],
    text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');
  expect([text(with_), text(without)].map((all) => /\\"version\\":(\d)/.exec(all)?.[1])).toEqual(['3', '2']);
  const length = Number(new DataView(with_.buffer, with_.byteOffset).getBigUint64(0, true)),
    header = JSON.parse(text(with_.subarray(8, 8 + length))) as Record<
      string,
      { data_offsets: readonly [number, number] }
    >,
    at = 8 + length + header['layers.1.biases'].data_offsets[0];
  new DataView(with_.buffer, with_.byteOffset).setFloat32(at, NaN, true);
  await expect(loadCache(model, with_)).rejects.toThrow(
    'saved cache: layers.1.biases must hold finite numbers, got NaN at 0',
  );
});

test('bytes allow for a number a slot', () => {
  const sizes = (biased: boolean) => slotSizes(model.config, 'f32', { biased }).bytesPerSlot;
  expect(sizes(true) - sizes(false)).toBe(4 * 2 * 3); // KV heads, layers
});

test('nothing is held where nothing is evicted', async () => {
  const result = await generate(model, { ids: ids.slice(0, 30), policy, budget: 64, maxNewTokens: 4 }),
    plain = await generate(model, { ids: ids.slice(0, 30), maxNewTokens: 4 });
  expect(result.tokens).toEqual(plain.tokens);
  expect(result.report.bytes.live).toBe(plain.report.bytes.live);
});

test.each([
  [
    'gives biases that are not finite',
    true,
    NaN,
    'mine, layer 0: biases must be finite and at most 10000 in size, got another in row 0, slot 0',
  ],
  [
    'gives biases beyond what engines take',
    true,
    20_000,
    'mine, layer 0: biases must be finite and at most 10000 in size, got another in row 0, slot 0',
  ],
  ['does not declare them', false, 1, "expected 'biases' in its declaration, as it gives biases, got none"],
])('a hook that %s is an error, and nothing has changed', async (_, declared, bias, message) => {
  const hook = onCompact('mine', { needs: [biases], biases: () => declared }, ({ ops, biases: b }) => ({
      biases: ops.add(b, bias),
    })),
    sequence = new Sequence(model);
  await expect(
    sequence.prefill(ids.slice(0, 40), { policy: compose(snapkv({ window: 6 }), topK(), hook()), budget: 12 }),
  ).rejects.toThrow(message);
  sequence.destroy();
});
