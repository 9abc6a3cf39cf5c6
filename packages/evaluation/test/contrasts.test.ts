import { expect, it } from 'vitest';
import { contrastText, sweepContrasts, sweepJson, sweepReport } from '../src/index.ts';
import type { CellResult, Sweep, SweepContrast, SweepRow } from '../src/index.ts';
import type { SweepOutcome } from '../src/sweep/write.ts';

const N = 60;
type Numbers = readonly number[];
interface Made {
  readonly row: SweepRow;
  readonly cells: readonly CellResult[];
}
/** A row with a cell for each number: a score, or the nats of a text that is read. */
const made = (
  policy: string,
  budget: number | undefined,
  numbers: Numbers,
  { slots = 10, task = 'sums', cache }: { slots?: number; task?: string; cache?: 'f16' | 'q8' } = {},
): Made => {
  const read = task === 'text';
  return {
    row: {
      model: 'm',
      task,
      policy,
      ...(budget !== undefined && { budget }),
      ...(cache && { cache }),
      problems: numbers.length,
      samples: numbers.length,
      accuracy: 0,
      unparsed: 0,
      meanSlots: slots,
      peakSlots: 10,
      meanBytes: slots * (cache === 'q8' ? 2 : 1),
      peakBytes: 1,
      ...(read && { perplexity: { value: 1, low: 1, high: 1 } }),
    },
    cells: numbers.map((number, i) => ({
      id: `${task}/${policy}/${budget}/${i}`,
      task,
      problem: `p${i}`,
      policy,
      ...(budget !== undefined && { budget }),
      ...(cache && { cache }),
      seed: 0,
      answer: String(number),
      score: read ? 0 : number,
      parsed: true,
      tokens: 1,
      slots: { mean: slots, peak: 10 },
      bytes: { mean: 1024, peak: 2048 },
      evidence: {},
    })),
  };
};
const outcomeOf = (...all: readonly Made[]): SweepOutcome => ({
  format: 1,
  rows: all.map(({ row }) => row),
  samples: { m: all.flatMap(({ cells }) => cells) },
});
const every = (step: number): Numbers => Array.from({ length: N }, (_, i) => Number(i % step === 0));
const [half, third, none] = [every(2), every(3), every(2).map(() => 0)];
const outcome = outcomeOf(
  made(
    'full',
    undefined,
    half.map(() => 1),
  ),
  made('a', 16, half, { slots: 15 }),
  made('a', 32, half, { slots: 31 }),
  made('b', 16, third, { slots: 16 }),
  made('b', 32, none, { slots: 31.2 }),
);
const found = (
  contrasts: NonNullable<Sweep['contrasts']>,
  match?: Sweep['match'],
  from = outcome,
): readonly SweepContrast[] => sweepContrasts({ contrasts, ...(match && { match }) }, from);
const only = (...some: Parameters<typeof found>): SweepContrast => {
  const all = found(...some);
  expect(all).toHaveLength(1);
  return all[0];
};
/** Mean and standard error of paired differences, as textbooks have them. */
function textbook(a: Numbers, b: Numbers): { difference: number; error: number } {
  let total = 0,
    squares = 0;
  for (let i = 0; i < a.length; i++) total += a[i] - b[i];
  const difference = total / a.length;
  for (let i = 0; i < a.length; i++) squares += (a[i] - b[i] - difference) ** 2;
  return { difference, error: Math.sqrt(squares / (a.length - 1) / a.length) };
}

it('has the difference of means, and an interval as wide as the standard error says', () => {
  const cells = found([{ policy: 'a', against: 'b' }]);
  expect(cells.map(({ budget, against }) => [budget, against.budget])).toEqual([
    [16, 16],
    [32, 32],
  ]);
  for (const [i, other] of [third, none].entries()) {
    const { difference, error } = textbook(half, other),
      { difference: got, low, high } = cells[i];
    expect(got).toBeCloseTo(difference, 12);
    expect(Math.abs(low - (difference - 1.96 * error))).toBeLessThan(0.35 * error);
    expect(Math.abs(high - (difference + 1.96 * error))).toBeLessThan(0.35 * error);
  }
});

it('turns every sign where the sides change places', () => {
  const there = found([{ policy: 'a', against: 'b' }]),
    back = found([{ policy: 'b', against: 'a' }]);
  for (const [i, { difference, low, high, p, bonferroni }] of there.entries()) {
    const turned = back[i];
    expect(difference).toBeGreaterThan(0);
    expect(turned.difference).toBe(-difference);
    expect([turned.low, turned.high]).toEqual([expect.closeTo(-high, 12), expect.closeTo(-low, 12)]);
    expect([turned.p, turned.bonferroni]).toEqual([p, bonferroni]);
  }
  expect(contrastText(there[1])).toContain('a at 32 slots on sums on m: better than b at 32 slots, +50.0 points [');
  expect(contrastText(back[1])).toContain('b at 32 slots on sums on m: worse than a at 32 slots, -50.0 points [');
});

it('adjusts p over all cells that are declared, and takes what evicts nothing for every budget', () => {
  const all = found([
    { policy: 'full', against: 'b' },
    { policy: 'a', against: 'b' },
  ]);
  expect(all.map(({ policy, budget, against }) => [policy, budget, against.budget])).toEqual([
    ['full', undefined, 16],
    ['full', undefined, 32],
    ['a', 16, 16],
    ['a', 32, 32],
  ]);
  for (const { p, bonferroni } of all) expect(bonferroni).toBe(Math.min(1, 4 * p));
  const few = outcomeOf(made('a', 16, [1, 1, 1]), made('b', 16, [0, 0, 0])),
    { p, evidence } = only([{ policy: 'a', against: 'b' }], undefined, few);
  expect([p, evidence]).toEqual([0.25, 'screening']); // three signs that all agree: 2 of 8
  const many = Array.from({ length: 200 }, () => 1),
    verdict = outcomeOf(made('a', 16, many), made('b', 16, many));
  expect(only([{ policy: 'a', against: 'b' }], undefined, verdict)).toMatchObject({ evidence: 'verdict', p: 1 });
  const standingOf = (part?: Sweep['part']): readonly string[] =>
    sweepContrasts({ contrasts: [{ policy: 'a', against: 'b' }], ...(part && { part }) }, verdict).map(
      (contrast) => contrast.evidence,
    );
  expect([standingOf('confirm'), standingOf('dev')]).toEqual([['verdict'], ['screening']]);
});

it('tells with match whether mean caches agree, with the share that was requested', () => {
  const asked = (within?: number): readonly (boolean | undefined)[] =>
    found(
      [
        { policy: 'a', against: 'b' },
        { policy: 'a', against: 'full' },
      ],
      { policy: 'a', ...(within && { within }) },
    ).map(({ matched }) => matched);
  expect(asked()).toEqual([false, true, undefined, undefined]);
  expect(asked(0.1)).toEqual([true, true, undefined, undefined]);
  expect(found([{ policy: 'a', against: 'b' }])[0]).not.toHaveProperty('matched');
  const texts = found([{ policy: 'a', against: 'b' }], { policy: 'a' }).map(contrastText);
  expect(texts).toEqual([
    expect.stringMatching(/on m: not matched with b at 16 slots, .*; mean caches do not agree\.$/),
    expect.stringContaining('; mean caches agree.'),
  ]);
});

it('compares texts that are read by their nats, where less is better', () => {
  const [low, high] = [half.map((x) => 2 + x / 8), half.map((x) => 2.5 + x / 8)],
    read = outcomeOf(made('a', 16, low, { task: 'text' }), made('b', 16, high, { task: 'text' })),
    one = only([{ policy: 'a', against: 'b' }], undefined, read);
  expect([one.of, one.difference]).toEqual(['nats', expect.closeTo(-0.5, 12)]);
  expect(contrastText(one)).toContain(
    `better than b at 16 slots, times ${Math.exp(-0.5).toFixed(3)}, p = `, // all windows say the same
  );
  expect(contrastText(only([{ policy: 'b', against: 'a' }], undefined, read))).toContain('worse than a at 16 slots');
});

it('stands first in the report, and nowhere where none is declared', () => {
  const sweep: Sweep = {
      models: ['m'],
      policies: ['full', 'a', 'b'],
      tasks: ['sums'],
      budgets: [16, 32],
      contrasts: [{ policy: 'a', against: 'b' }],
    },
    facts = { command: 'kv eval s.json', sweep, versions: {}, hashes: {} },
    contrasts = sweepContrasts(sweep, outcome),
    html = sweepReport({ ...outcome, contrasts }, facts),
    sections = [...html.matchAll(/<h2>(.*?)<\/h2>/g)].map(([, title]) => title);
  expect(sections.slice(0, 2)).toEqual(['Declared contrasts', 'What came out']);
  for (const contrast of contrasts) expect(html).toContain(`<li>${contrastText(contrast)}</li>`);
  expect(html).toContain('Comparisons with the full cache: 4, counted apart from the declared contrasts.');
  expect(JSON.parse(sweepJson({ ...outcome, contrasts }))).toMatchObject({ contrasts });
  expect(sweepReport(outcome, facts)).not.toMatch(/<h2>Declared|counted apart/);
});

it('compares one policy in two forms, or two in one form, at the bytes that are equal', () => {
  const forms = outcomeOf(
      made('a', 16, half, { slots: 15, cache: 'f16' }),
      made('a', 16, third, { slots: 7.5, cache: 'q8' }),
      made('b', 16, none, { slots: 8, cache: 'q8' }),
    ),
    match = { policy: 'a', bytes: 'mean', within: 0.01 } as const,
    across = only([{ policy: 'a', against: 'a', caches: ['q8', 'f16'] }], match, forms);
  expect([across.cache, across.against.cache, across.matched]).toEqual(['q8', 'f16', true]);
  expect(across.difference).toBeCloseTo(textbook(third, half).difference, 12);
  expect(contrastText(across)).toMatch(
    /^a in q8 at 16 slots on sums on m: undecided against a in f16 at 16 slots, .*; mean bytes agree\.$/,
  );
  const within = only([{ policy: 'a', against: 'b' }], match, forms);
  expect([within.cache, within.against.cache, within.matched]).toEqual(['q8', 'q8', false]);
});
