import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { claimsMarkdown, judged } from '../src/claims.ts';
import { planNames, planOf } from '../src/plans.ts';
import type { Measured } from '../src/verdict.ts';

const committed = (name: string): string => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');

describe('the table of claims', () => {
  const made = claimsMarkdown();
  it('is what plans and results give: npm run -s study -- papers/claims writes it', () => {
    expect(committed('claims.md')).toBe(made.claims);
    expect(committed('superseded.md')).toBe(made.superseded);
  });
  it('has every claim, as a row that counts, as one that is superseded, or with the reason why it is not asked', () => {
    const both = made.claims + made.superseded;
    const readings = JSON.parse(committed('readings.json')) as readonly { rows: readonly string[]; claim?: string }[],
      told = new Map(readings.flatMap(({ rows, claim }) => rows.map((row) => [row, claim] as const)));
    const claims = planNames.flatMap((name) =>
      planOf(name).rows.map(({ id, claim }) => told.get(`${name}:${id}`) ?? claim),
    );
    for (const claim of claims) expect(both, claim).toContain(`| ${claim.replaceAll('|', '\\|')}`);
  });
});
describe('a verdict', () => {
  const measured = (low: number, high: number, threshold: number, more: Partial<Measured> = {}): Measured => ({
    contrast: { task: 't', metric: 'nll', a: { policy: 'a' }, b: { policy: 'b' }, threshold },
    n: 40,
    a: { arm: { policy: 'a' }, mean: 0 },
    b: { arm: { policy: 'b' }, mean: 0 },
    ...{ difference: (low + high) / 2, low, high, verdict: 'held' },
    ...more,
  });
  it('goes by the interval alone: it is undecided where that touches or crosses the threshold', () => {
    fc.assert(
      fc.property(
        fc.tuple(fc.integer({ min: -9, max: 9 }), fc.integer({ min: -9, max: 9 })),
        fc.integer({ min: -9, max: 9 }),
        ([a, b], threshold) => {
          const [low, high] = [Math.min(a, b), Math.max(a, b)],
            { verdict } = judged(measured(low, high, threshold), 1);
          if (low === 0 && high === 0) expect(verdict).toBe('undecided');
          else expect(verdict).toBe(low > threshold ? 'held' : high < threshold ? 'not' : 'undecided');
        },
      ),
    );
  });
  it('of shares that no prompt tells apart knows what n prompts can tell', () => {
    const shares = (threshold: number, n: number) => ({
      ...measured(0, 0, threshold),
      n,
      contrast: { ...measured(0, 0, threshold).contrast, metric: 'hit' as const },
    });
    expect(judged(shares(-0.2, 60), 4).verdict).toBe('held');
    expect(judged(shares(-0.2, 10), 4).verdict).toBe('undecided');
    expect(judged(shares(0, 60), 4).verdict).toBe('undecided');
  });
  it('is undecided for whatever kept it from telling', () => {
    expect(judged(measured(1, 2, 0, { because: 'mean caches are not matched' }), 1).verdict).toBe('undecided');
  });
});
