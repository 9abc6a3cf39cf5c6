import { describe, expect, test } from 'vitest';
import { allocators } from './mutants/allocator.ts';
import { applications } from './mutants/apply.ts';
import { backends } from './mutants/backend.ts';
import { boundedOptions } from './mutants/bounded.ts';
import { maxima, sums, weightedSums } from './mutants/combination.ts';
import { compositions } from './mutants/compose.ts';
import { demotions } from './mutants/demotion.ts';
import { engines, wordedEngines } from './mutants/engine.ts';
import { folds } from './mutants/fold.ts';
import { inputSignals } from './mutants/input-signal.ts';
import { kernels } from './mutants/kernel.ts';
import { refits } from './mutants/refit.ts';
import { schedules } from './mutants/schedule.ts';
import { scoreAllocators } from './mutants/score-allocator.ts';
import { scorers } from './mutants/scorer.ts';
import { selectors } from './mutants/selector.ts';
import { sharings } from './mutants/sharing.ts';
import { transforms } from './mutants/transform.ts';
import { units } from './mutants/unit.ts';
import { viewLoops } from './mutants/view-loop.ts';

const fields = [
  scorers,
  transforms,
  sums,
  maxima,
  weightedSums,
  units,
  selectors,
  demotions,
  refits,
  folds,
  allocators,
  scoreAllocators,
  schedules,
  sharings,
  viewLoops,
  inputSignals,
  kernels,
  backends,
  boundedOptions,
  compositions,
  engines,
  wordedEngines,
  applications,
];

/**
 * Mutants whose whole row is looked at this time: all of them with KV_FULL=1, else the eighth that KV_TURN chooses. Of the
 * others their own law is looked at, which must catch them.
 */
const rowsOfTurn = (laws: readonly string[]): readonly string[] =>
  process.env['KV_FULL'] === '1' ? laws : laws.filter((_, i) => i % 8 === Number(process.env['KV_TURN'] || 0) % 8);

/** Rows are mutants, columns laws; `x` where the law catches the mutant. */
function table(kind: string, laws: readonly string[], caught: ReadonlyMap<string, readonly string[]>): string {
  const wide = Math.max(...laws.map((l) => l.length), 4);
  const rows = [...caught].map(
    ([mutant, by]) =>
      `  ${mutant.padEnd(wide)} ${laws.map((l) => (by.includes(l) ? 'x' : '.').padStart(Math.floor((l.length + 1) / 2)).padEnd(l.length)).join(' ')}`,
  );
  return [
    `${kind}: mutant of a law (row) against law (column)`,
    `  ${' '.repeat(wide)} ${laws.join(' ')}`,
    ...rows,
  ].join('\n');
}

describe.each(fields)('$kind', ({ kind, laws, broken }) => {
  test('every mutant is caught by the law it is named after, and by no other', { timeout: 120_000 }, async () => {
    const caught = new Map<string, readonly string[]>();
    const whole = ['good', ...rowsOfTurn(laws)];
    for (const subject of ['good', ...laws])
      caught.set(subject, await broken(subject, whole.includes(subject) ? laws : [subject]));
    console.log(table(kind, laws, caught));
    expect(Object.fromEntries(caught)).toEqual({ good: [], ...Object.fromEntries(laws.map((l) => [l, [l]])) });
  });
});
