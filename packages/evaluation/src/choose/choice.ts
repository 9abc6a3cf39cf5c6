import type { CacheForm } from '@kv/engine';
import type { FileBudget } from '../cells/types.ts';
import { evidenceLevel } from '../evidence-level.ts';
import { mean } from '../numbers.ts';
import type { Candidate } from './candidate.ts';
import type { ChoicePrompt } from './prompts.ts';
import type { Results } from './results.ts';
import { clustersOf } from './split.ts';
import type { ChoiceSplit } from './split.ts';
import { lossInterval, tiesWith } from './statistics/loss-interval.ts';
import type { LossInterval } from './statistics/loss-interval.ts';
import { keepsLoss, withinOne } from './statistics/losses.ts';
import type { LossKind } from './statistics/losses.ts';

/** The least loss within a budget, or the fewest bytes within a loss, a share such as 0.01. */
export type ChoiceGoal = { readonly budget: FileBudget } | { readonly lose: number };

/** A candidate, and what it lost. */
export interface ChoiceRow extends Candidate {
  /** Bytes of the cache after the event: the measured mean, or predicted if it was not run. */
  readonly bytes: number;
  /** Prompts that it was asked to choose by. */
  readonly prompts: number;
  /** Its loss on these, with the interval of that; absent if there are none. */
  readonly loss?: LossInterval;
  /** Its loss on prompts that had no say in the choice. */
  readonly confirmed?: LossInterval;
  /** Means, on the prompts that confirm if it was asked these, else on the others. */
  readonly kl?: number;
  readonly same?: number;
  readonly right?: number;
  readonly ms?: number;
  /** Whether it is still in the race: neither shown to be worse, nor set aside for lack of time. */
  readonly alive: boolean;
  /** Why it cannot run here, if so. */
  readonly refused?: string;
}

/** What a choice found. */
export interface Choice {
  readonly model: string;
  readonly engine: string;
  /** How caches are stored; absent before the first result. */
  readonly form?: CacheForm;
  readonly seed: number | string;
  readonly goal: ChoiceGoal;
  /**
   * What a loss is: the full cache's grade minus the candidate's ('answers'), or that the answer is another than the
   * full cache's ('same': prompts without answers, and prompts of which the full cache answers none right).
   */
  readonly kind: LossKind;
  /** Level of all intervals. */
  readonly level: number;
  readonly prompts: {
    readonly choosing: number;
    readonly confirming: number;
    readonly documents: number;
    /** Mean length of what is read before the event. */
    readonly tokens: number;
    readonly answers: boolean;
    /** Whether questions are read before the event or asked after it; both, where some prompts have one apart. */
    readonly question: 'inside' | 'after' | 'both';
    /** Whether prompts were put into the model's chat template. */
    readonly template: boolean;
  };
  /** The full cache: means over all prompts that it was asked. */
  readonly full: { readonly bytes: number; readonly ms: number; readonly right?: number };
  /** Every candidate: the choice, then those that were asked the prompts that confirm by their loss on these, then the rest. */
  readonly rows: readonly ChoiceRow[];
  /** Row of the choice; absent if none meets the goal. */
  readonly chosen?: number;
  /** The row that came nearest, where none meets the goal. */
  readonly nearest?: number;
  /** Rows that the prompts that confirm do not tell from it. */
  readonly tied: readonly number[];
  /** Of the chosen or nearest row, on the prompts that confirm. */
  readonly failures?: {
    /** Prompts on which it lost. */
    readonly lost: number;
    /** Of these, prompts of whose right answer no head holds all tokens. */
    readonly dropped: number;
    /** Prompts on which the full cache is wrong. */
    readonly full: number;
  };
  /** Candidates that time did not allow to ask; for a loss, those of policies that were asked at no budget. */
  readonly left: number;
  readonly evidence: 'screening' | 'verdict';
  /** Whether the choice was confirmed on all prompts that had no say. */
  readonly done: boolean;
  readonly seconds: number;
}

/** What a choice is about, in addition to its results. */
export interface ChoiceFacts {
  readonly model: string;
  readonly engine: string;
  readonly seed: number | string;
  readonly goal: ChoiceGoal;
  readonly level: number;
  readonly prompts: readonly ChoicePrompt[];
  readonly candidates: readonly Candidate[];
  readonly split: ChoiceSplit;
}

/** A candidate's place in the order of a choice. */
interface Standing {
  readonly candidate: number;
  readonly loss: number;
  readonly kl: number;
  readonly bytes: number;
  /** Asked as often as others: what was asked less may have been lucky. */
  readonly known: boolean;
}

const meanOf = <T>(some: readonly T[], of: (one: T) => number): number | undefined =>
  some.length === 0 ? undefined : mean(some.map(of));

/**
 * Puts candidates in the order of the goal, by the prompts that choose: by loss, or, of those that keep a loss, by bytes.
 * Within a budget, those first that lose at most one document more than the least: a difference of one tells nothing
 * (its sign is a coin's), so the divergence puts these in order. Candidates that were asked less than half as often as the
 * others come later, and what was never asked last.
 */
export function rankCandidates(
  { candidates, split: { choosing }, goal, prompts }: ChoiceFacts,
  results: Results,
): readonly Standing[] {
  const clusters = clustersOf(choosing, prompts),
    counts = results.outcomes.map((some) => choosing.filter((prompt) => some[prompt]).length),
    most = Math.max(...counts),
    keeps = 'lose' in goal ? goal.lose : -Infinity;
  const standings = candidates.map(({ bytes }, candidate): Standing => {
    // what turns out not to run, or to keep more than its budget, is no choice, whatever it lost elsewhere
    const found = results.refused.has(candidate) ? undefined : results.meanLoss(candidate, choosing, clusters),
      { loss, kl } = found ?? { loss: Infinity, kl: Infinity };
    return {
      ...{ candidate, loss, kl },
      bytes: results.bytes(candidate) ?? bytes,
      known: loss < Infinity && counts[candidate] >= most / 2,
    };
  });
  const kept = ({ known, loss }: Standing): boolean => known && keepsLoss(loss, keeps),
    read = choosing.filter((prompt) => results.references[prompt]),
    least = Math.min(...standings.filter(({ known }) => known).map(({ loss }) => loss)),
    near = withinOne(least, new Set(clustersOf(read, prompts)).size),
    alike = ({ known, loss }: Standing): boolean => !('lose' in goal) && known && near(loss),
    // of two infinite ones the difference is no number
    less = (a: number, b: number): number => (a === b ? 0 : a - b);
  return standings.sort((a, b) => {
    if (a.known !== b.known) return a.known ? -1 : 1;
    if (kept(a) !== kept(b)) return kept(a) ? -1 : 1;
    const [byLoss, byDivergence, byBytes] = [less(a.loss, b.loss), less(a.kl, b.kl), a.bytes - b.bytes];
    if (kept(a)) return byBytes || byLoss || byDivergence;
    if (alike(a) !== alike(b)) return alike(a) ? -1 : 1;
    return alike(a) ? byDivergence || byLoss || byBytes : byLoss || byDivergence || byBytes;
  });
}

/**
 * Puts what was asked the prompts that confirm before the rest, by its loss on these; the first few keep their places.
 * Which one is chosen is settled before, by the prompts that choose.
 */
function byConfirmation(
  standings: readonly Standing[],
  first: number,
  lossOf: (standing: Standing) => number | undefined,
): readonly Standing[] {
  const rest = standings.slice(first).map((standing) => ({ standing, loss: lossOf(standing) ?? Infinity }));
  return [
    ...standings.slice(0, first),
    ...rest.sort((a, b) => (a.loss === b.loss ? 0 : a.loss - b.loss)).map(({ standing }) => standing),
  ];
}

/** Returns the choice that results lead to. @param alive candidates that are still in the race */
export function choiceOf(
  facts: ChoiceFacts,
  results: Results,
  { alive, done, seconds }: { readonly alive: ReadonlySet<number>; readonly done: boolean; readonly seconds: number },
): Choice {
  const { model, engine, seed, goal, level, prompts, candidates, split } = facts,
    { kind } = results,
    ranked = rankCandidates(facts, results),
    known = results.references.filter((one) => one !== undefined);
  const intervalOn = (candidate: number, side: readonly number[]): LossInterval | undefined => {
    const there = side.filter((prompt) => results.outcomes[candidate][prompt]),
      losses = results.losses(candidate, there, kind).filter((loss) => loss !== undefined);
    return losses.length === 0 ? undefined : lossInterval(losses, clustersOf(there, prompts), { kind, level });
  };
  const anything = ranked.length > 0 && ranked[0].loss < Infinity,
    meets = anything && (!('lose' in goal) || keepsLoss(ranked[0].loss, goal.lose)),
    confirmed = candidates.map((_, candidate) => intervalOn(candidate, split.confirming)),
    standings = byConfirmation(ranked, meets ? 1 : 0, ({ candidate }) => confirmed[candidate]?.mean);
  const rows = standings.map(({ candidate, bytes }): ChoiceRow => {
    const loss = intervalOn(candidate, split.choosing),
      later = confirmed[candidate],
      side = later ? split.confirming : split.choosing,
      outcomes = side.flatMap((prompt) => results.outcomes[candidate][prompt] ?? []),
      measured = results.measured(candidate, side),
      [kl, ms] = [meanOf(measured, (one) => one.kl), meanOf(measured, (one) => one.ms)],
      same = meanOf(outcomes, (one) => Number(one.same)),
      right = meanOf(
        outcomes.filter((one) => one.right !== undefined),
        (one) => one.right ?? 0,
      ),
      refused = results.refused.get(candidate);
    return {
      ...candidates[candidate],
      bytes,
      prompts: loss?.n ?? 0,
      ...(loss && { loss }),
      ...(later && { confirmed: later }),
      ...(kl !== undefined && { kl }),
      ...(same !== undefined && { same }),
      ...(right !== undefined && { right }),
      ...(ms !== undefined && { ms }),
      alive: alive.has(candidate),
      ...(refused !== undefined && { refused }),
    };
  });
  const [first] = standings,
    // for a loss, what one budget of a policy shows rules out others, which are never asked
    tried = new Set('lose' in goal ? rows.filter(({ prompts: n }) => n > 0).map(({ policy }) => policy) : []),
    right = known.flatMap((one) => (one.right === undefined ? [] : [one.right]));
  const asked = prompts.filter(({ question }) => question !== undefined).length,
    told = split.confirming.filter((prompt) => anything && results.outcomes[first.candidate][prompt]),
    confirmedRows = standings.flatMap(({ candidate }, row) =>
      told.length > 0 && told.every((prompt) => results.outcomes[candidate][prompt]) ? [row] : [],
    );
  return {
    ...{ model, engine, ...(results.form && { form: results.form }), seed, goal, kind, level },
    prompts: {
      choosing: split.choosing.length,
      confirming: split.confirming.length,
      documents: new Set(prompts.map(({ document }) => document)).size,
      tokens: mean(prompts.map(({ ids }) => ids.length)),
      answers: prompts.every(({ answers }) => answers !== undefined),
      question: asked === 0 ? 'inside' : asked === prompts.length ? 'after' : 'both',
      template: prompts.some(({ template }) => template === true),
    },
    full: {
      bytes: results.fullBytes,
      ms: meanOf(known, ({ ms }) => ms) ?? 0,
      ...(right.length > 0 && { right: mean(right) }),
    },
    rows,
    ...(anything && { [meets ? 'chosen' : 'nearest']: 0 }),
    tied:
      confirmedRows.length < 2
        ? []
        : tiesWith(
            confirmedRows.map((row) => results.losses(standings[row].candidate, told, kind).map((loss) => loss ?? 0)), // all are known
            clustersOf(told, prompts),
            0,
            { kind, level },
          ).map((i) => confirmedRows[i]),
    ...(told.length > 0 && { failures: failuresOf(results, first.candidate, told, kind) }),
    left: rows.filter(({ prompts: n, policy, refused }) => n === 0 && refused === undefined && !tried.has(policy))
      .length,
    evidence: evidenceLevel(new Set(clustersOf(told, prompts)).size),
    done,
    seconds,
  };
}

function failuresOf(
  results: Results,
  candidate: number,
  prompts: readonly number[],
  kind: LossKind,
): Required<Choice>['failures'] {
  const losses = results.losses(candidate, prompts, kind),
    lost = prompts.filter((_, i) => (losses[i] ?? 0) > 0);
  return {
    lost: lost.length,
    dropped: lost.filter((prompt) => results.outcomes[candidate][prompt]?.held === 0).length,
    full: prompts.filter((prompt) => results.references[prompt]?.right === 0).length,
  };
}
