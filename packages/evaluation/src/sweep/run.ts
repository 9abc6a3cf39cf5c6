import { compile } from '@kv/core/engine';
import type { Budget } from '@kv/models';
import { interpolate, wilson } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import { cellsOf } from '../cells/experiment.ts';
import { rebudget } from '../cells/rebudget.ts';
import { cellId } from '../cells/types.ts';
import type { Cell, CellResult, Tasks } from '../cells/types.ts';
import { policyOf } from '../policies.ts';
import type { Naming } from '../policies.ts';
import { isDev } from '../protocol/split.ts';
import { armSummary } from '../protocol/statistics.ts';
import type { ArmSummary } from '../protocol/statistics.ts';
import type { Sweep } from './sweep.ts';

/** One policy at one budget on one task, over its problems and seeds. */
export interface SweepRow extends ArmSummary {
  readonly model: string;
  readonly task: string;
  readonly policy: string;
  /** As the sweep has it; absent where nothing is evicted. */
  readonly budget?: Budget;
  /** What it was given, beside `match`. */
  readonly slots?: number;
  /** Beside `match`: whether mean caches agree within what was asked for, over all problems. */
  readonly matched?: boolean;
  readonly samples: number;
  /** Wilson's, 95 %, where all scores are 0 or 1 and each problem has one sample. */
  readonly interval?: Interval;
  /**
   * Beside `match`: accuracy less what that policy's curve has at the same mean cache; absent outside the curve.
   */
  readonly shortfall?: number;
}

type Answers = (cells: readonly Cell[]) => Promise<readonly CellResult[]>;

/** A way of a row, and the way that is compared with it. */
interface Way {
  readonly task: string;
  readonly policy: string;
  readonly budget?: Budget;
  readonly slots?: number;
}

/**
 * The rows and the samples of one model. Beside `match` budgets are first found on ids to choose on alone, or on all of
 * a task that has none of these.
 */
export async function sweepModel(
  model: string,
  { policies, budgets, seeds = [0], match }: Sweep,
  tasks: Tasks,
  answers: Answers,
  names: Naming['names'],
): Promise<{ readonly rows: readonly SweepRow[]; readonly samples: readonly CellResult[] }> {
  const evicting = new Map(
    await Promise.all(policies.map(async (text) => [text, compile(await policyOf(text, names)).evicts] as const)),
  );
  const within = match?.within ?? 0.01,
    ways: Way[] = [];
  for (const task of Object.keys(tasks))
    for (const policy of policies)
      if (!evicting.get(policy)) ways.push({ task, policy });
      else
        for (const budget of budgets)
          ways.push({ task, policy, budget, ...(await matchedSlots(task, policy, budget)) });

  async function matchedSlots(task: string, policy: string, budget: Budget): Promise<Pick<Way, 'slots'>> {
    if (!match) return {};
    if (policy === match.policy || typeof budget === 'string') return { slots: Number(budget) };
    const dev = tasks[task].filter(({ id }) => isDev(id)),
      some = (dev.length > 0 ? dev : tasks[task]).map(({ id }) => ({ task, id })),
      at = async (of: string, slots: number): Promise<number> =>
        armSummary(await answers(await cellsOf([{ policy: of, budgets: [slots] }], some, seeds.slice(0, 1), names)))
          .meanSlots;
    const found = await rebudget(await at(match.policy, budget), budget, within, (slots) => at(policy, slots));
    return { slots: found.budget };
  }

  const asked = await Promise.all(
    ways.map(({ task, policy, budget, slots }) =>
      cellsOf(
        [{ policy, budgets: [slots ?? budget ?? 1] }],
        tasks[task].map(({ id }) => ({ task, id })),
        seeds,
        names,
      ),
    ),
  );
  // all at once, so that every thread has work; two ways that came to one budget share their samples
  const samples = await answers(asked.flat()),
    known = new Map(samples.map((sample) => [cellId(sample), sample])),
    summed = ways.map((way, i) => ({ way, results: asked[i].map((cell) => known.get(cellId(cell))!) })); // all were asked for
  const rows = summed.map(({ way, results }): SweepRow => {
    const summary = armSummary(results),
      single = seeds.length === 1 && results.every(({ score }) => score === 0 || score === 1);
    return {
      model,
      ...way,
      ...summary,
      samples: results.length,
      ...(single && { interval: wilson(results.filter(({ score }) => score === 1).length, results.length) }),
    };
  });
  return { rows: match ? rows.map((row) => compared(row, rows, match.policy, within)) : rows, samples };
}

function compared(row: SweepRow, rows: readonly SweepRow[], policy: string, within: number): SweepRow {
  if (row.budget === undefined) return row;
  const curve = rows.filter((one) => one.task === row.task && one.policy === policy),
    same = curve.find(({ budget }) => budget === row.budget),
    height = interpolate(
      curve.map(({ meanSlots, accuracy }) => [meanSlots, accuracy] as const),
      row.meanSlots,
    );
  return {
    ...row,
    ...(same && { matched: Math.abs(row.meanSlots - same.meanSlots) <= within * same.meanSlots }),
    ...(height !== undefined && { shortfall: row.accuracy - height }),
  };
}
