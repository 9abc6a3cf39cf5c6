import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Policy } from '@kv/core';
import { compose, onAttend, onEvict, positions, rerotate, scorer, state, view } from '@kv/core';
import { referenceEngine, stepTogether } from '@kv/engine';
import { writeTinyModel } from '@kv/model-testing';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { fit } from '@kv/transforms-fit';
import { moments } from '@kv/transforms-moments';
import { afterAll, expect, test } from 'vitest';
import { cpuRuntime, generate, hostRuntime, loadCache, loadModel, saveCache, Sequence } from '../src/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'kv-terms-'));
afterAll(() => rmSync(folder, { recursive: true }));
const path = writeTinyModel(folder, { layers: 3 }),
  model = await loadModel(path, { runtime: cpuRuntime({ exact: true }) }),
  ids = Array.from({ length: 160 }, (_, i) => (i * 37 + (i >> 3)) % 250),
  policy = compose(snapkv({ window: 6 }), topK(), moments());
const near = (got: readonly Float32Array[], want: readonly Float32Array[], most = 2e-3): void =>
  got.forEach((row, r) => row.forEach((x, i) => expect(Math.abs(x - want[r][i])).toBeLessThan(most)));
const apart = (a: readonly Float32Array[], b: readonly Float32Array[]): number =>
  Math.max(...a.flatMap((row, r) => Array.from(row, (x, i) => Math.abs(x - b[r][i]))));

/** Positions that leave, one of each stretch of 64. */
const LEAVE = [10, 70, 130];
const others = scorer('others', { needs: [positions] }, ({ ops, positions: p }) =>
  LEAVE.reduce((mask, at) => ops.mul(mask, ops.sub(1, ops.zip('equal', p, at))), ops.fill(ops.float(p), 1)),
);
test.each([moments(), moments({ spread: true }), moments({ cross: false }), moments({ stretches: 64 })])(
  'a slot that leaves alone stays in attention as it was: $label',
  async (hook) => {
    const run = async (of?: ReturnType<typeof moments>) => {
        const sequence = new Sequence(model);
        await sequence.prefill(
          ids.slice(0, 150),
          of ? { policy: compose(others(), topK(), of), budget: 147 } : undefined,
        );
        await sequence.step(ids[150]);
        await sequence.append(ids.slice(151, 160), { rows: 9 });
        return sequence;
      },
      [with_, full] = [await run(hook), await run()];
    expect(with_.kept()[0][0]).toHaveLength(157);
    near(await with_.logits(), await full.logits(), 1e-4);
  },
);

test('blocks, tokens and events of the module are those of plain loops', async () => {
  const plain = await loadModel(path, { runtime: hostRuntime({ engine: referenceEngine() }) }),
    run = async (of: typeof model, by: Policy = policy) => {
      const sequence = new Sequence(of);
      await sequence.prefill(ids.slice(0, 80), { policy: by, budget: 16, block: 20 });
      for (const id of ids.slice(80, 90)) await sequence.step(id, 4);
      await sequence.append(ids.slice(90, 99), { rows: 3 });
      return sequence;
    },
    [got, want, without] = [
      await run(model),
      await run(plain),
      await run(model, compose(snapkv({ window: 6 }), topK())),
    ];
  expect(got.kept()).toEqual(want.kept());
  near(await got.logits(), await want.logits());
  expect(apart(await got.logits(), await without.logits())).toBeGreaterThan(1e-2);
});

test('copies, saved caches and sequences that step together go on alike', async () => {
  const first = new Sequence(model);
  await first.prefill(ids.slice(0, 60), { policy, budget: 12 });
  const [second, third] = [first.fork(), first.fork()],
    loaded = await loadCache(model, await saveCache(first), { policy, budget: 12 });
  await stepTogether([
    { sequence: first, token: 5 },
    { sequence: second, token: 7 },
  ] as never);
  await third.step(5);
  await loaded.step(5);
  near(await first.logits(), await third.logits(), 1e-6);
  near(await first.logits(), await loaded.logits(), 1e-6);
  await second.evict(policy, 8); // its moments are its own
  await first.step(9);
  await third.step(9);
  near(await first.logits(), await third.logits(), 1e-6);
  for (const each of [first, second, third, loaded]) {
    each.destroy();
    expect([each.memory.ledger.live, each.memory.ledger.allocated]).toEqual([0, 0]);
  }
});

const equal = (got: readonly Float32Array[], want: readonly Float32Array[]): void => expect(got).toEqual(want);
test('what was folded stays in attention under every later policy, or that policy is refused', async () => {
  const first = new Sequence(model);
  await first.prefill(ids.slice(0, 60), { policy, budget: 12 });
  const plain = compose(snapkv({ window: 6 }), topK()),
    after = async (then: (copy: Sequence) => void | Promise<void>) => {
      const copy = first.fork();
      await then(copy);
      await copy.append(ids.slice(60, 70), { rows: 10 });
      return copy.logits();
    },
    want = await after(() => {});
  equal(await after((copy) => copy.evict(plain, 60)), want);
  equal(await after((copy) => copy.decodeUnder(plain, 70)), want);
  equal(await after((copy) => copy.evict(compose(snapkv({ window: 6 }), topK(), moments()), 60)), want);
  // the kept slots are refitted with the term that goes on, which all of them need not change for
  near(await after((copy) => copy.evict(compose(snapkv({ window: 6 }), topK(), fit()), 60)), want, 1e-4);
  const other = compose(snapkv({ window: 6 }), topK(), moments({ stretches: 2 })),
    moving = compose(snapkv({ window: 6 }), topK(), rerotate());
  for (const [next, change] of [
    [other, (copy: Sequence) => copy.evict(other, 10)],
    [moving, (copy: Sequence) => copy.evict(moving, 10)],
    [other, async (copy: Sequence) => copy.decodeUnder(other, 10)],
    [other, (copy: Sequence) => copy.prefill([5], { policy: other, budget: 10 })],
  ] as const)
    await expect(after(change)).rejects.toThrow(
      `policy: expected one with 'moments', or one that folds nothing and moves no slots, as slots were folded by 'moments', got '${next.label}'`,
    );
  first.destroy();
});

test.each([moments(), fit({ queries: 4 })])('bytes count what stays under a later policy: $label', async (hook) => {
  const sequence = new Sequence(model),
    plain = compose(snapkv({ window: 6 }), topK());
  await sequence.prefill(ids.slice(0, 100), {
    policy: compose(snapkv({ window: 6 }), topK(), hook as ReturnType<typeof moments>),
    budget: 60,
  });
  const held = (): number => {
      const { cache, ledger } = sequence.memory;
      return cache.liveBytes + (hook.label === 'moments' ? ledger.entry('states').live : 0);
    },
    bytes = Math.floor(0.8 * held());
  await sequence.evict(plain, { bytes });
  expect(held()).toBeLessThanOrEqual(bytes);
  expect(held()).toBeGreaterThan(0.9 * bytes);
  sequence.destroy();
});

test('a saved cache of folded slots is loaded by a policy that attends to them', async () => {
  const first = new Sequence(model);
  await first.prefill(ids.slice(0, 60), { policy, budget: 12 });
  const bytes = await saveCache(first),
    plain = compose(snapkv({ window: 6 }), topK()),
    message = (got: string) =>
      `saved cache: slots that left are still attended to as 'moments' folded them: expected a policy with 'moments', got ${got}`;
  for (const [next, got] of [
    [plain, `'${plain.label}'`],
    [
      compose(snapkv({ window: 6 }), topK(), moments({ spread: true })),
      "'snapkv(window=6) ∘ topK ∘ moments(spread=true)'",
    ],
  ] as const)
    await expect(loadCache(model, bytes, { policy: next, budget: 12 })).rejects.toThrow(message(got));
  // without a policy the one that it had says what attention goes on adding
  const [as, without] = [first.fork(), await loadCache(model, bytes)];
  for (const each of [as, without]) await each.append(ids.slice(60, 64), { rows: 4 });
  near(await without.logits(), await as.logits(), 1e-6);
  for (const each of [as, without]) each.destroy();
  // a saved copy under another policy is still one with a term
  const copy = first.fork();
  await copy.evict(plain, 10);
  await expect(loadCache(model, await saveCache(copy), { policy: plain, budget: 10 })).rejects.toThrow(
    'are still attended to',
  );
  const untouched = new Sequence(model);
  await untouched.prefill(ids.slice(0, 10), { policy, budget: 12 });
  (await loadCache(model, await saveCache(untouched), { policy: plain, budget: 12 })).destroy(); // nothing left
  for (const each of [first, copy, untouched]) each.destroy();
});

test('nothing is added where nothing leaves, and fits count what is added', async () => {
  const result = await generate(model, { ids: ids.slice(0, 30), policy, budget: 64, maxNewTokens: 4 }),
    plain = await generate(model, { ids: ids.slice(0, 30), maxNewTokens: 4 });
  expect(result.tokens).toEqual(plain.tokens);
  const run = async (...rest: readonly ReturnType<typeof fit | typeof moments>[]) => {
      const sequence = new Sequence(model);
      await sequence.prefill(ids.slice(0, 150), {
        policy: compose(others(), topK(), ...(rest as [ReturnType<typeof moments>])),
        budget: 147,
      });
      await sequence.append(ids.slice(150, 156), { rows: 6 });
      return sequence.logits();
    },
    [both, alone] = [await run(moments(), fit({ queries: 8 })), await run(moments())];
  near(both, alone, 1e-3); // the kept slots and the term are all that there was
});

test('slots whose moments are kept are not moved', async () => {
  expect(() => compose(snapkv(), topK(), moments(), rerotate())).toThrow(
    "moves kept slots together (rerotate), expected them where they were, as 'moments' folds slots at their positions",
  );
  const sequence = new Sequence(model, undefined, { window: 100 });
  await sequence.prefill(ids.slice(0, 90), { policy, budget: 16 });
  await expect(sequence.append(ids.slice(90, 120))).rejects.toThrow(
    "must fit the model's context of 100 tokens, evicted ones included: 'moments' folds slots at their positions, and no slot can be moved after that, got 120",
  );
  await sequence.append(ids.slice(90, 100));
  expect([sequence.fits(0), sequence.fits(1), sequence.memory.slots.fits(1)]).toEqual([true, false, true]); // an answer ends there
});

test('a view, which evicts nothing, refuses what folds or refits', () => {
  for (const hook of [moments(), fit()])
    expect(() => view(compose(snapkv(), topK(), hook as ReturnType<typeof moments>))).toThrow(
      /^view: '.*' changes or folds slots when it evicts \((?:moments|fit)\), expected a policy that only chooses: a view evicts nothing$/,
    );
});

const sums = state('sums', { kind: 'sequence', rows: 'kv', perChannel: 1, width: 0 });
const mine = (masses: number, values: number) =>
  onEvict(
    'mine',
    {
      needs: [sums],
      hooks: () => [
        onAttend('adds', { needs: [sums] }, ({ ops, queries: q }) => {
          const zero = ops.mul(q, 0);
          return { masses: ops.add(ops.reduce('sum', zero, 'channels'), masses), values: ops.add(zero, values) };
        })(),
      ],
    },
    ({ ops, sums: s }) => ({ sums: ops.add(s, 1) }),
  )();
test.each([
  [NaN, 0, 'adds, layer 0: expected masses as finite numbers, got another'],
  [0, Infinity, 'adds, layer 0: expected values as finite numbers, got another'],
])("a third party's term of mass %s and value %s is an error", async (mass, value, message) => {
  const sequence = new Sequence(model);
  await sequence.prefill(ids.slice(0, 40), {
    policy: compose(snapkv({ window: 6 }), topK(), mine(mass, value)),
    budget: 12,
  });
  await expect(sequence.step(3)).rejects.toThrow(message);
  sequence.destroy();
});
