import type { Tensor } from '@kv/core';
import { LayerCache, Ledger, levelsOf, rotator } from '@kv/engine';
import type { CacheForm, LayerSnapshot } from '@kv/engine';
import type { OpenScope } from '@kv/gpu';
import { random } from '@kv/gpu-testing';
import { inTurn } from '@kv/model-testing/in-turn';
import { generate } from '@kv/models';
import type { Budget, GenerateResult, Model, Report } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import fc from 'fast-check';
import { expect } from 'vitest';
import { DeviceCache } from '../src/sequence/cache.ts';
import { everywhere, gpuTests } from './device.ts';
import { both, fixture, relative, said } from './sequences.ts';

const gpuTest = await gpuTests();
const [G, D] = [2, 32],
  POSITIONS = 200,
  ids = Array.from({ length: 34 }, (_, i) => (i * 37 + 11) % 64);
type Slots = LayerSnapshot['slots'];

/** What can be done with a cache. */
const steps = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('append' as const), count: fc.integer({ min: 1, max: 9 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('keep' as const),
      share: fc.constantFrom(0, 0.3, 0.8, 0.9, 1),
      levels: fc.constantFrom('none', 'mixed', 'mixed', 'coarsest'),
    }),
  },
  { weight: 3, arbitrary: fc.constantFrom({ do: 'fork' as const }, { do: 'rebase' as const }) },
  fc.record({ do: fc.constant('restore' as const), as: fc.constantFrom(undefined, 'f16' as const, 'q8' as const) }),
);

/** Cosines and sines of positions. */
function angles(positions: Iterable<number>): { readonly rotary: number; cos: Float32Array; sin: Float32Array } {
  const all = Array.from(positions, (p) => Array.from({ length: D / 2 }, (_, i) => p / 50 ** ((2 * i) / D))).flat();
  return { rotary: D, cos: Float32Array.from(all, Math.cos), sin: Float32Array.from(all, Math.sin) };
}

/** Reads a cache as a file has it. */
async function savedOf(scope: OpenScope, cache: DeviceCache): Promise<Slots> {
  const wanted: Tensor[] = [],
    slots = cache.saved((x) => {
      const at = wanted.push(x) - 1;
      return () => read[at].data;
    }),
    read = await scope.read(wanted);
  return slots();
}

/** Returns a cache on the host with these slots. */
function hosted(form: CacheForm, lengths: readonly number[], slots: Slots): LayerCache {
  const cache = new LayerCache(G, D, new Ledger(), { form });
  cache.restore(lengths, slots);
  return cache;
}

/** The bytes of slots. */
const bytesOf = ({ keys, values, records }: Slots): unknown =>
  records ? records.bytes : [keys.codes, keys.scales, values.codes, values.scales];

/** Expects numbers as another processor rounds them: few to a neighbour, and those of rows that stay as they were. */
function expectNear(got: LayerCache, want: LayerCache, stays: (g: number, i: number) => boolean, what: string): void {
  let [off, all] = [0, 0];
  for (const part of ['keys', 'values'] as const)
    for (let g = 0; g < G; g++) {
      const [a, b] = [got.read(part, g), want.read(part, g)];
      for (let i = 0; i * D < b.length; i++) {
        const [x, y] = [a, b].map((rows) => rows.subarray(i * D, (i + 1) * D)),
          most = Math.max(...y.map(Math.abs)),
          far = y.map((c, j) => Math.abs(c - x[j]) / (most || 1));
        if (stays(g, i)) expect(x, `${what}, ${part} ${g}, ${i}`).toEqual(y);
        expect(Math.max(...far), `${what}, ${part} ${g}, ${i}`).toBeLessThan(0.15); // a step of 4 bits
        off += far.filter((by) => by > 1e-5).length;
        all += D;
      }
    }
  expect(off, what).toBeLessThanOrEqual(all / 200);
}

gpuTest(
  'slots at levels are stored, demoted, turned, copied and saved as on the host, whatever comes after what',
  (gpu) =>
    everywhere(
      fc.record({
        form: fc.constantFrom<CacheForm>('f32', 'f16', 'q8', 'k8v4'),
        all: fc.array(steps, { minLength: 4, maxLength: 9 }),
        seed: fc.integer(),
      }),
      async ({ form: first, all, seed }) => {
        const next = random(seed),
          scope = gpu.open(),
          { commands } = scope,
          ledger = new Ledger(),
          device = { scope, ledger };
        let form = first,
          cache = new DeviceCache(G, D, device, form),
          position = 0;
        const table = angles(Array.from({ length: POSITIONS }, (_, p) => p)),
          [cos, sin] = [table.cos, table.sin].map((x) => commands.upload(x, [POSITIONS, D / 2]));
        for (const [at, step] of all.entries()) {
          const what = `${first}, step ${at} of ${JSON.stringify(all)}`,
            before = await savedOf(scope, cache),
            levels = cache.levels();
          let host = hosted(form, cache.counts, before),
            kept = Array.from(cache.counts, (n) => Uint32Array.from({ length: n }, (_, i) => i));
          if (step.do === 'append') {
            const m = step.count,
              numbers = (): Float32Array => Float32Array.from({ length: G * m * D }, () => 4 * next() - 2),
              [k, v] = [numbers(), numbers()],
              added = Uint32Array.from({ length: m }, () => (position += 1 + Math.floor(2 * next())));
            host.append(k, v, added);
            cache.grow(m);
            cache.append(
              commands.upload(k, [G, m, D]),
              commands.upload(v, [G, m, D]),
              commands.upload(added, [m]),
              added,
              added,
            );
          } else if (step.do === 'keep') {
            kept = kept.map((slots) => slots.filter(() => next() < step.share));
            const given =
                step.levels === 'none'
                  ? undefined
                  : kept.map((list) =>
                      Uint8Array.from(list, () => (step.levels === 'mixed' ? Math.floor(5 * next()) : 4)),
                    ),
              counts = kept.map(({ length }) => length),
              most = Math.max(1, ...counts),
              rows = new Uint32Array(G * most);
            for (const [g, list] of kept.entries()) rows.set(list, g * most);
            host.keep(kept, 0, given);
            cache.keep(
              { kept: commands.upload(rows, [G, most]), counts: commands.upload(Uint32Array.from(counts), [G]) },
              counts,
              { slots: kept, levels: given },
            );
            cache.confirm(kept);
          } else if (step.do === 'rebase') {
            const to = 3 + cache.length;
            host.rebase(to, rotator(angles, [...Array(POSITIONS).keys()]));
            cache.rebase(to, {
              commands,
              angles: { rotary: D, cos, sin },
              row: new Map(Array.from({ length: POSITIONS }, (_, p) => [p, p])),
            });
          } else {
            const { counts } = cache;
            if (step.do === 'restore') form = step.as ?? form;
            const copy = step.do === 'fork' ? cache.fork(device) : new DeviceCache(G, D, device, form);
            cache.destroy();
            cache = copy;
            if (step.do === 'restore') cache.restore(counts, before);
            host = step.do === 'fork' ? host.fork() : hosted(form, counts, before);
          }
          const [got, want] = [await savedOf(scope, cache), host.slots()],
            [{ data: places }, { data: lengths }] = await scope.read([cache.positions, cache.lengths]);
          expect(
            cache.counts.flatMap((n, g) => [...places.subarray(g * cache.capacity, g * cache.capacity + n)]),
            what,
          ).toEqual([...want.positions]);
          expect([...lengths], what).toEqual([...host.lengths]);
          expect([got.form, got.positions, got.rotations], what).toEqual([want.form, want.positions, want.rotations]);
          expect(got.records && levelsOf(got.records), what).toEqual(want.records && levelsOf(want.records));
          expect([cache.counts, ledger.live], what).toEqual([[...host.lengths], host.liveBytes]);
          expect(ledger.allocated, what).toBeGreaterThanOrEqual(ledger.live);
          if (step.do === 'fork' || step.do === 'restore' || (step.do === 'keep' && step.levels === 'none'))
            expect(bytesOf(got), what).toEqual(bytesOf(want));
          const after = cache.levels(),
            same = got.form === before.form && step.do !== 'rebase';
          expectNear(
            hosted(form, cache.counts, got),
            host,
            (g, i) => same && i < kept[g].length && after[g][i] === levels[g][kept[g][i]],
            what,
          );
        }
        cache.destroy();
        expect([ledger.live, ledger.allocated]).toEqual([0, 0]);
        scope.end();
      },
      12,
    ),
);

/** A policy with levels, and how it is run. */
interface Run {
  readonly policy: string;
  readonly cache?: CacheForm;
  readonly budget: Budget;
  readonly block?: number | undefined;
  readonly every?: number | undefined;
}
/** Such runs, for heads of 16 channels, which no level of 4 bits fits. */
const runs: fc.Arbitrary<Run> = fc
  .record({
    scorer: fc.constantFrom('snapkv(window=4)', 'h2o(recent=4)', 'h2o(recent=4,rows=kv)', 'snapkv(window=4) | caote'),
    allocator: fc.constantFrom('', ' | adaKV'),
    levels: fc.constantFrom('f16=0.5,q8=0.5', 'f32=0.3,q8=0.7', 'q8=1', 'f32=0.2,f16=0.3,q8=0.5'),
    hook: fc.constantFrom('', ' | rerotate', ' | view(pageBounds(page=4) | topK,budget=8)'),
    cache: fc.constantFrom<CacheForm>('f32', 'f16', 'q8'),
    budget: fc.constantFrom<Budget>('100%', 14),
    block: fc.constantFrom(undefined, 11),
    every: fc.constantFrom(undefined, 1, 3),
  })
  .map(({ scorer, allocator, levels, hook, ...rest }) => ({
    policy: `${scorer}${allocator} | topK | levels(${levels})${hook}`,
    ...rest,
  }));

/** What a report says of bytes in use: each place lays out records as it likes. */
const used = (report: Report): object => said({ ...report, bytes: { ...report.bytes, allocated: 0 } });

async function expectAlike(host: Model, device: Model, { policy: text, ...options }: Run): Promise<void> {
  const policy = parsePolicy(text),
    run = async (model: Model): Promise<GenerateResult> =>
      await generate(model, { ids, policy, maxNewTokens: 6, logits: 3, ...options }),
    [want, got] = [await run(host), await run(device)];
  expect(got.tokens, text).toEqual(want.tokens);
  expect(used(got.report), text).toEqual(used(want.report));
  // a number that is rounded to a neighbour is a step off
  for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row), text).toBeLessThan(3e-3);
}

// KV_FULL=1 runs many policies at random: software adapters compile a kernel for seconds
if (process.env.KV_FULL === '1')
  gpuTest('policies with levels keep, store and answer on a device what they do on the host, at random', (gpu) =>
    both(gpu, fixture('llama'), (host, device) => everywhere(runs, (run) => expectAlike(host, device, run), 60)),
  );
const chosen: [string, Run][] = [
  [
    'llama',
    {
      policy: 'h2o(recent=4) | adaKV | topK | levels(f32=0.2,f16=0.3,q8=0.5) | rerotate',
      ...{ budget: 14, block: 11, every: 3 },
    },
  ],
  // slots that its window has left behind are dropped from among records
  ['mistral', { policy: 'snapkv(window=4) | topK | levels(f16=0.5,q8=0.5)', budget: '100%' }],
];
for (const [name, run] of inTurn(chosen, 2))
  gpuTest(`policies with levels keep, store and answer on a device what they do on the host: ${name}`, (gpu) =>
    both(gpu, fixture(name), (host, device) => expectAlike(host, device, run)),
  );
