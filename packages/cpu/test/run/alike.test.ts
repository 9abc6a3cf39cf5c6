import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, keys, mandatory, positions, scorer, scoreTransform, sum, transform } from '@kv/core';
import { cpu } from '@kv/cpu';
import { compile, StepCache, runEvent, readDecisions } from '@kv/core/engine';
import type { StepInput, DraftSelection, Piece } from '@kv/core';
import type { EventLayer } from '@kv/core/engine';
import { topK } from './pieces.ts';
import { at, ops } from './engine.ts';

type Step = Parameters<StepCache['reuse']>[0];
const SLOTS = 8;
let runs = 0;
const placed = scorer('placed', { needs: [positions] }, ({ ops: o, positions: p }) => {
  runs++;
  return o.exp(o.sub(0, o.div(o.mul(p, p), 50)));
});
const sized = scorer('sized', { needs: [keys] }, ({ ops: o, keys: k }) => o.norm(k));
const numbered = scorer('numbered', { needs: [positions] }, ({ ops: o, at: { layer }, positions: p }) =>
  o.less(layer, p),
);
const budgeted = scoreTransform('budgeted', {}, ({ ops: o, scores, budgets }) =>
  o.add(scores, o.reduce('max', budgets, 'rows')),
);
const lifted = transform('lifted', { needs: [positions] }, ({ ops: o, scores, positions: p, at: place }) =>
  o.add(scores, o.zip('equal', p, { ...place }.layer)),
);
const scorers = [placed(), sized(), numbered(), sum(placed(), numbered()), sum(placed(), sized())];
const transforms = [budgeted(), lifted(), mandatory({ sinks: 1, recent: 1 })];

const policies: fc.Arbitrary<Piece> = fc
  .record({
    scorer: fc.constantFrom(...scorers),
    then: fc.array(fc.constantFrom(...transforms), { maxLength: 2 }),
  })
  .map(({ scorer: first, then }) => compose(first as Piece<'start', 'scores'>, ...(then as []), topK()));
/** Some layers share a tensor of positions, others have their own. */
const layers = fc
  .array(fc.record({ held: fc.nat(2), budget: fc.integer({ min: 2, max: 3 }), seed: fc.nat(1000) }), {
    minLength: 1,
    maxLength: 6,
  })
  .map((all) => {
    const held = [0, 3, 5].map((from) =>
      ops.from({ data: Uint32Array.from({ length: SLOTS }, (_, i) => from + i), shape: [1, SLOTS] }, 'u32'),
    );
    return all.map(({ held: which, budget, seed }, layer): EventLayer => {
      const numbers = Float32Array.from({ length: 2 * SLOTS }, (_, i) => Math.sin(seed + i)),
        vectors = ops.from({ data: numbers, shape: [1, SLOTS, 2] });
      return {
        at: at({ layer, layers: all.length, slots: SLOTS, length: 16, budget }),
        budgets: [budget],
        read: ({ id }) => (id === 'positions' ? held[which] : vectors),
      };
    });
  });

const knowing = (known: StepCache, all: readonly EventLayer[]): readonly EventLayer[] =>
  all.map((layer): EventLayer => ({ ...layer, stepCache: known }));
/** An event in two parts, with a step cache of earlier layers, keeps what it keeps without one. */
const keepsTheSame = (make: () => StepCache) =>
  fc.asyncProperty(policies, layers, fc.nat(6), async (policy, all, cut) => {
    const compiled = compile(policy),
      known = make(),
      parts = [all.slice(0, cut), all.slice(cut)].map((part) => runEvent(compiled, knowing(known, part), ops));
    expect((await readDecisions(cpu, all, parts.flat())).kept).toEqual(
      (await readDecisions(cpu, all, runEvent(compiled, all, ops))).kept,
    );
  });

test('what a step left in a layer serves only layers where it reads the same', () =>
  fc.assert(keepsTheSame(() => new StepCache())));

/** Reuses the result of any earlier layer if what it compares is the same. */
class Careless extends StepCache {
  readonly #all = new Map<Step, { readonly cell: StepInput; readonly drafts: readonly DraftSelection[] }>();
  readonly #same: (step: Step, a: StepInput, b: StepInput) => boolean;
  constructor(same: (step: Step, a: StepInput, b: StepInput) => boolean) {
    super();
    this.#same = same;
  }
  override reuse(
    step: Step,
    cell: StepInput,
    run: (cell: StepInput) => readonly DraftSelection[],
  ): readonly DraftSelection[] {
    const before = this.#all.get(step);
    if (before && this.#same(step, before.cell, cell)) return before.drafts;
    const drafts = run(cell);
    this.#all.set(step, { cell, drafts });
    return drafts;
  }
}
const same = (a: DraftSelection, b: DraftSelection): boolean =>
  a === b || (a.scores === b.scores && a.budgets === b.budgets);
const sameValues = ({ needs }: Step, a: StepInput, b: StepInput): boolean =>
  needs.every((s) => a.read(s) === b.read(s));
test.each([
  ['minds neither values nor drafts', () => true],
  ['minds drafts alone', (_: Step, a: StepInput, b: StepInput) => same(a.draft, b.draft)],
  ['minds values alone', sameValues],
  [
    'never minds who asks for the number of a layer',
    (step: Step, a: StepInput, b: StepInput) => same(a.draft, b.draft) && sameValues(step, a, b),
  ],
] as const)('a mutant that %s is caught', async (_, takes) => {
  const { failed } = await fc.check(
    keepsTheSame(() => new Careless(takes)),
    { numRuns: 300 },
  );
  expect(failed).toBe(true);
});

test('a piece of positions runs once for all layers that hold the same, and for each where they differ', () => {
  const place = (layer: number, held: unknown): EventLayer => ({
      at: at({ layer, layers: 4, slots: SLOTS, length: SLOTS }),
      budgets: [2],
      read: () => held,
    }),
    held = () => ops.from({ data: new Uint32Array(SLOTS), shape: [1, SLOTS] }, 'u32'),
    one = held(),
    counted = (policy: Piece, places: readonly EventLayer[]): number => {
      runs = 0;
      runEvent(compile(policy), knowing(new StepCache(), places), ops);
      return runs;
    };
  const near = placed(),
    plain = compose(near, topK()),
    alike = [0, 1, 2, 3].map((l) => place(l, one));
  expect(counted(plain, alike)).toBe(1);
  expect(
    counted(
      plain,
      alike.map(({ at: { layer } }) => place(layer, held())),
    ),
  ).toBe(4);
  // also inside another piece, and once if a policy names it twice
  expect(counted(compose(sum(near, numbered(), near), topK()), alike)).toBe(1);
});
