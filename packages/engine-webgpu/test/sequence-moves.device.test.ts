import { numbers, random } from '@kv/gpu-testing';
import { createPrefixStore, generate, loadCache, saveCache, Sequence, slotScores } from '@kv/models';
import type { Model } from '@kv/models';
import { parsePolicy, policy as policyOf } from '@kv/policies';
import fc from 'fast-check';
import { inTurn } from '@kv/model-testing/in-turn';
import { expect } from 'vitest';
import { encodeRotate } from '../src/rotate.ts';
import { everywhere, gpuTests, near, twice } from './device.ts';
import { both, fixture, onDevice, relative, said } from './sequences.ts';

const gpuTest = await gpuTests();
const distinct = (n: number): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11) % 64);

gpuTest('slots are turned on from one position to another, as rotations compose', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      rows: fc.constantFrom(1, 3),
      slots: fc.constantFrom(1, 2, 63, 64, 65),
      spare: fc.constantFrom(0, 5),
      half: fc.constantFrom(1, 4, 8),
      rest: fc.constantFrom(0, 3),
      factor: fc.constantFrom(1, 1.3),
    }),
    async ({ seed, rows, slots, spare, half, rest, factor }) => {
      const next = random(seed),
        size = slots + spare,
        d = 2 * half + rest,
        known = 40,
        x = numbers(seed, rows * size * d),
        angle = (p: number, i: number): number => (p * 97) / 10 ** ((2 * i) / half);
      const table = (of: (a: number) => number): Float32Array =>
        Float32Array.from({ length: known * half }, (_, at) => factor * of(angle(Math.floor(at / half), at % half)));
      const turns = Uint32Array.from({ length: rows * slots * 2 }, (_, at) =>
        at % 4 === 1 ? 7 : at % 4 === 0 && next() < 0.3 ? 7 : Math.floor(next() * known),
      );
      const want = Float64Array.from(x),
        slack = new Float64Array(x.length);
      for (let r = 0; r < rows; r++)
        for (let i = 0; i < slots; i++) {
          const [from, to] = [turns[2 * (r * slots + i)], turns[2 * (r * slots + i) + 1]],
            at = (r * size + i) * d;
          if (from === to) continue;
          for (let c = 0; c < half; c++) {
            const by = angle(to, c) - angle(from, c),
              [a, b] = [x[at + c], x[at + half + c]];
            [want[at + c], want[at + half + c]] = [
              a * Math.cos(by) - b * Math.sin(by),
              b * Math.cos(by) + a * Math.sin(by),
            ];
            // angles rounded to f32, a product, a root of 2 ULP, a division of 2.5
            slack[at + c] = slack[at + half + c] = 16 * 2 ** -24 * (Math.abs(a) + Math.abs(b));
          }
        }
      const [got] = await twice(gpu, (commands) => {
        const data = commands.upload(x, [rows, size, d]);
        encodeRotate(commands, { x: data, form: 'f32', d }, commands.upload(turns, [rows, slots, 2]), {
          rotary: 2 * half,
          cos: commands.upload(table(Math.cos), [known, half]),
          sin: commands.upload(table(Math.sin), [known, half]),
        });
        return [data];
      });
      near(got, want, (at) => slack[at]); // 0 for what stays: the same bits
    },
    10,
  ),
);

// ministral3's queries are scaled by where they stand in the text, whatever moved
for (const name of inTurn(['llama', 'ministral3'], 2))
  gpuTest(`${name}: streamingRerotated runs on the device alone, and keeps what the host keeps`, (gpu) =>
    both(gpu, fixture(name), async (host, device) => {
      const options = {
          ids: distinct(40),
          policy: policyOf('streamingRerotated'),
          budget: 16,
          block: 12,
          every: 3,
          maxNewTokens: 8,
          logits: 4,
        },
        want = await generate(host, options);
      // logits are read instead of ids, including those of the last token
      const got = await onDevice(gpu, device, options, ({ events = 0 }) => events + 1);
      expect(got.tokens).toEqual(want.tokens);
      expect(said(got.report)).toEqual(said(want.report));
      for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row)).toBeLessThan(2e-5);
    }),
  );

const OPTIONS = { h2o: { recent: 4 }, snapkv: { window: 4 }, crystalcacheBreath: { recent: 4, interval: 4 } } as const;

/**
 * A sequence that is longer than its window, decoded without an event while its slots move together: scores of a fork
 * after every step, and then what it, a fork and a saved copy of it keep and generate.
 */
async function longer(
  model: Model,
  name: keyof typeof OPTIONS,
  rows?: 'kv',
): Promise<{ readonly scores: Float32Array[]; readonly ends: unknown[][] }> {
  const sequence = new Sequence(model, undefined, { window: 30 }),
    policy = policyOf(name, { ...OPTIONS[name], ...(rows && { rows }) }),
    ends: unknown[][] = [],
    scores: Float32Array[] = [];
  await sequence.prefill(distinct(46), { policy, budget: 12, block: 10 });
  for (let i = 0; i < 13; i++) {
    await sequence.step((7 * i + 5) % 64);
    const fork = sequence.fork(); // reading would end what waits
    scores.push(...(await slotScores(fork, policy, 1)));
    fork.destroy();
  }
  const fork = sequence.fork(),
    loaded = await loadCache(model, await saveCache(sequence), { policy, window: 30 });
  for (const some of [sequence, fork, loaded]) {
    for (let i = 0; i < 9; i++) await some.step(((await some.next()) + i) % 64, 5);
    ends.push([
      some.kept(),
      some.progress.length,
      await some.next(),
      { ...some.memory.ledger.bytes(), peak: 0, meanPrefill: 0, meanDecode: 0 },
    ]);
    some.destroy();
  }
  return { scores, ends };
}

for (const [name, rows] of inTurn([['h2o'], ['h2o', 'kv'], ['snapkv']] as const, 3))
  gpuTest(
    `${name}${rows ? ' by KV head' : ''} goes on beyond the model's context: kept slots, their queries and what waits move together as on the host`,
    (gpu) =>
      both(gpu, fixture('llama'), async (host, device) => {
        const [want, got] = [await longer(host, name, rows), await longer(device, name, rows)];
        for (const [i, row] of want.scores.entries()) expect(relative(got.scores[i], row)).toBeLessThan(1e-5);
        expect(got.ends).toEqual(want.ends);
        for (const end of got.ends.slice(1)) expect(end.slice(0, 3)).toEqual(got.ends[0].slice(0, 3));
      }),
  );

gpuTest(
  'a cache saved on the host is loaded on the device and saved with the same bytes, and the other way round: a read, and an upload',
  (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      const cases = [
        ['h2o', undefined, host, device],
        ['h2o', undefined, device, host],
        ['snapkv', 30, host, device],
        ['crystalcacheBreath', undefined, device, host],
        ['h2o', undefined, host, device, 'kv', 'q8'],
        ['h2o', undefined, device, host, 'kv', 'q8'],
        ['h2o', 30, host, device, undefined, 'f32', 'levels(f16=0.5,q8=0.5)'],
        ['h2o', 30, device, host, undefined, 'f32', 'levels(f16=0.5,q8=0.5)'],
      ] as const;
      for (const [name, window, from, to, rows, cache, levels] of inTurn(cases, 4)) {
        const policy = levels
          ? parsePolicy(`h2o(recent=4) | topK | ${levels}`)
          : policyOf(name, { ...OPTIONS[name], ...(rows && { rows }) });
        const sequence = new Sequence(from, undefined, { ...(window && { window }), ...(cache && { cache }) }),
          reads = (): number => gpu.counters.readbacks;
        await sequence.prefill(distinct(44), {
          policy,
          budget: 12,
          ...(name !== 'crystalcacheBreath' && { block: 12 }),
        });
        for (let i = 0; i < 6; i++) await sequence.step(await sequence.next(), 4);
        await sequence.logits();
        const before = reads(),
          bytes = await saveCache(sequence);
        expect(reads() - before).toBe(from === device ? 1 : 0);
        const loaded = await loadCache(to, bytes, { policy, ...(window && { window }) });
        expect(reads() - before).toBe(from === device ? 1 : 0);
        expect(Buffer.from(await saveCache(loaded)).equals(Buffer.from(bytes)), name).toBe(true);
        expect(reads() - before).toBe(1);
        expect(loaded.memory.ledger.bytes().live).toBe(sequence.memory.ledger.bytes().live);
        for (const some of [sequence, loaded]) for (let i = 0; i < 6; i++) await some.step(await some.next(), 4);
        // an event that gives no levels moves the slots that have some
        if (levels)
          for (const some of [sequence, loaded]) {
            await some.prefill(distinct(5), { policy: policyOf('h2o', OPTIONS.h2o), budget: 10 });
            await some.logits();
          }
        expect(loaded.kept(), name).toEqual(sequence.kept());
        expect(await loaded.next()).toBe(await sequence.next());
        for (const some of [sequence, loaded]) some.destroy();
      }
    }),
);

gpuTest('prompts that begin alike share a prefix that is on the device', (gpu) =>
  both(gpu, fixture('llama'), async (host, device) => {
    const went = async (model: Model): Promise<unknown> => {
      const store = createPrefixStore(model, { maxBytes: 2 ** 20 });
      await store.add(distinct(12));
      const sequence = await store.sequence([...distinct(9), 3, 4]),
        out = [{ ...store.counts }, store.bytes, sequence.progress.length, await sequence.next()];
      sequence.destroy();
      store.destroy();
      return out;
    };
    expect(await went(device)).toEqual(await went(host));
  }),
);

gpuTest('what has no room even so is said before anything is fed', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const sequence = new Sequence(device, undefined, { window: 20 });
    await expect(
      sequence.prefill(distinct(24), { policy: policyOf('streaming'), budget: 16, block: 8 }),
    ).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: prompt: must fit the model's context of 20 tokens, got 24]`,
    );
    expect(sequence.progress.length).toBe(0);
    sequence.destroy();
  }),
);

gpuTest('keys before rotation are those of the host, once slots stand elsewhere', (gpu) =>
  both(gpu, fixture('llama'), async (host, device) => {
    const [one, other] = [host, device].map((model) => new Sequence(model)) as [Sequence, Sequence],
      scorer = 'leverage | topK';
    for (const sequence of [one, other]) {
      await sequence.prefill(distinct(40), {
        policy: policyOf('streamingRerotated'),
        budget: 16,
        block: 12,
        policies: [parsePolicy(scorer)],
      });
      await sequence.append([1, 2, 3]);
    }
    for (let l = 0; l < 2; l++) {
      const [want, got] = [await slotScores(one, scorer, l), await slotScores(other, scorer, l)];
      for (const [g, row] of want.entries()) expect(relative(got[g]!, row)).toBeLessThan(1e-3);
    }
    for (const sequence of [one, other]) sequence.destroy();
  }),
);
