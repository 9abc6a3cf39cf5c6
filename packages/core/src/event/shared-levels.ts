import type { Check, DraftSelection, Reach, Step, StepInput } from '../piece/atoms.ts';
import { onKeptRows } from '../piece/drafts.ts';
import type { AnySignal } from '../piece/signals.ts';
import { sameSignal } from '../piece/signals.ts';
import { KvError } from '../tensor/errors.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { runStep } from './boundary.ts';
import { REACH } from './policy-boundary.ts';

/**
 * Returns steps whose allocators after a selector share out what the demotions after them give: how many slots of each
 * row are stored at a level, instead of how many stay.
 * @throws KvError for an allocator after a selector that shares no sum out, or that no demotion follows
 */
export function sharedLevels(steps: readonly Step[]): readonly Step[] {
  let selector: Step | undefined,
    demoted = true;
  const allocators: Step[] = [],
    made: Step[] = [];
  for (const step of steps) {
    if (step.kind === 'selector') selector = step;
    if (selector && step.kind === 'allocator') {
      if (step.choosesBudget || step.approximate || step.forces || step.beforeSelector || step.plan)
        throw new KvError(
          'compose',
          `'${step.name}' shares no sum of slots out, expected it before '${selector.name}', or an allocator such as adaKV`,
        );
      allocators.push(step);
      demoted = false;
      continue;
    }
    if (step.kind === 'demotion') demoted = true;
    made.push(step.kind === 'demotion' && allocators.length > 0 ? shared(step, [...allocators]) : step);
  }
  if (!demoted)
    throw new KvError(
      'compose',
      `'${allocators.at(-1)?.name}' after '${selector?.name}' shares levels out: put a demotion such as levels after it, or it before '${selector?.name}'`,
    );
  return made;
}

/** Returns a demotion whose counts of slots are shared out by allocators. */
function shared(step: Step, allocators: readonly Step[]): Step {
  const all = [step, ...allocators],
    reach = (REACH as readonly Reach[])[Math.max(...all.map((one) => REACH.indexOf(one.reach)))],
    needs: readonly AnySignal[] = all
      .flatMap((one) => one.needs)
      .filter((signal, i, list) => list.findIndex((other) => sameSignal(signal, other)) === i);
  return {
    ...step,
    needs,
    reach,
    needsFullPrompt: all.some((one) => one.needsFullPrompt),
    run(cells) {
      const checks: Check[] = [],
        given = cells.map(
          (cell): StepInput => ({
            ...cell,
            allot: (counts) => {
              const made = allotted(allocators, cells, counts);
              checks.push(atMost(allocators, cells, counts, made));
              return made;
            },
          }),
        ),
        [first, ...rest] = step.run(given);
      return first ? [{ ...first, checks: [...first.checks, ...checks] }, ...rest] : [];
    },
  };
}

/** Returns the slots of each row that allocators make of these, among the kept ones. */
function allotted(
  allocators: readonly Step[],
  cells: readonly StepInput[],
  counts: readonly Tensor[],
): readonly Tensor[] {
  let drafts = cells.map((cell, i): DraftSelection => {
    const { draft, ops } = cell,
      { kept } = onKeptRows(cell);
    return {
      ...(draft.scores && { scores: draft.scores }),
      budgets: counts[i],
      banned: ops.not(kept),
      state: draft.state,
      checks: [],
    };
  });
  for (const step of allocators)
    drafts = [
      ...runStep(
        step,
        // what an earlier layer allotted is not looked for: it had other counts
        cells.map((cell, i) => ({ ...cell, stepCache: undefined, draft: drafts[i] })),
      ),
    ];
  return drafts.map(({ budgets }) => budgets);
}

/** Returns the promise that allocators have shared out no more than there was. */
function atMost(
  allocators: readonly Step[],
  cells: readonly StepInput[],
  asked: readonly Tensor[],
  got: readonly Tensor[],
): Check {
  const [{ ops, at }] = cells,
    total = (of: readonly Tensor[]): Tensor =>
      of.map((x) => ops.reduce('sum', x, 'rows')).reduce((a, b) => ops.add(a, b));
  return {
    bad: ops.firstBad(ops.sub(total(asked), total(got)), 0),
    piece: allocators.map(({ name }) => name).join(', '),
    layer: at.layer,
    what: 'the sum of slots at a level',
    want: 'at most what was shared out',
  };
}
