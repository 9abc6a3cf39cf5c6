import { KvError, slotsOf } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { expectLevelsFit, slotSizes } from '@kv/engine';
import type { CacheForm } from '@kv/engine';
import { catalogue, parsePolicy, policyNames, recommendedPolicies } from '@kv/policies';
import { askFiles } from '../ask-files.ts';
import type { FileBudget } from '../cells/types.ts';
import type { Subject } from '../subject.ts';
import type { Candidate } from './candidate.ts';
import { drawnPolicies } from './draw.ts';
import { priceOf } from './price.ts';
import { refusedBy } from './targets.ts';
import type { Target } from './targets.ts';

/** Shares of memory that are tried where the loss is given and the budget is sought. */
export const SHARES: readonly FileBudget[] = ['6.25%', '12.5%', '25%', '50%'];

/** What candidates are drawn for. */
export interface CandidateOptions {
  /** Tokens read of each prompt. */
  readonly lengths: readonly number[];
  /** How the model's caches are stored. */
  readonly form: CacheForm;
  /** One, or several among which the budget is sought: what demotes slots is then also tried with all of them. */
  readonly budgets: readonly FileBudget[];
  /** The engine that is to run the choice. @defaultValue 'kv' */
  readonly target?: Target | undefined;
  /** The model runs on a GPU, where no policy reads hidden states. @defaultValue false */
  readonly device?: boolean | undefined;
  /** Another seed draws other policies. @defaultValue 0 */
  readonly seed?: number | undefined;
  /** Policies in all. @defaultValue 96 */
  readonly most?: number | undefined;
}

/** What a choice is made from. */
export interface Candidates {
  readonly candidates: readonly Candidate[];
  /** Policies of the catalogue that are no candidates, and why. */
  readonly left: readonly { readonly policy: string; readonly why: string }[];
}

/** Draws in a row that gave no new policy, after which there are no more. */
const PATIENCE = 2000;

/**
 * Returns the candidates of a choice, each at every budget that it fits: first the recommended policies and every method
 * and scorer of the catalogue with its defaults, then policies drawn from the algebra. Policies that the engine or the
 * model cannot run, and those that evict nothing, are left out; the full cache is what all are compared with.
 */
export async function candidatesOf(
  { config, sidecar }: Pick<Subject, 'config' | 'sidecar'>,
  { lengths, form, budgets, target = 'kv', device = false, seed = 0, most = 96 }: CandidateOptions,
): Promise<Candidates> {
  const sizes = slotSizes(config, form);
  for (const budget of budgets) slotsOf(budget, Math.min(...lengths), sizes);
  const holdsAll = (budget: FileBudget): boolean => lengths.every((length) => slotsOf(budget, length, sizes) >= length);
  if (budgets.every(holdsAll))
    throw new KvError(
      'budget',
      `expected less than the full cache, got ${budgets.join(', ')}, which holds all ${Math.max(...lengths)} tokens of the longest prompt in ${form}: nothing need be dropped`,
    );
  const found: Found[] = [],
    left: { policy: string; why: string }[] = [],
    seen = new Set<string>();
  /** Adds a policy at every budget; returns why it is left out, undefined if it is not or is known. */
  async function add(text: string): Promise<string | undefined> {
    const policy = parsePolicy(text),
      { label, levels, needs } = compile(policy);
    if (seen.has(label)) return undefined;
    seen.add(label);
    const why = await unfit(policy);
    if (why !== undefined) return why;
    const at = (levels && budgets.length > 1 ? [...budgets, '100%' as const] : budgets).flatMap(
      (budget) => priceOf(text, budget, config, lengths, form) ?? [],
    );
    if (at.length === 0) return 'it forces more slots than any of these budgets has';
    found.push({ at, reads: needs.map(({ id }) => id).join() });
    return undefined;
  }
  async function unfit(policy: Policy): Promise<string | undefined> {
    const compiled = compile(policy),
      reads = [...compiled.needs, ...compiled.hooks('step').flatMap(({ needs }) => needs)];
    if (compiled.hooks('view').length > 0 || compiled.hooks('freeze').length > 0)
      return 'it hides slots or freezes tokens, which takes no less memory';
    if (!compiled.evicts) return 'it evicts nothing';
    if (compiled.raises || compiled.open) return 'it may keep more than its budget';
    if (device && reads.some(({ hidden }) => hidden)) return 'it reads hidden states, which stay on a GPU';
    try {
      expectLevelsFit(compiled, config);
      await askFiles(policy, sidecar);
    } catch (cause) {
      if (KvError.is(cause)) return cause.message;
      throw cause;
    }
    return refusedBy(target, compiled);
  }

  for (const policy of [...RECOMMENDED, ...policyNames]) {
    const why = found.length < most && !RANDOM.has(policy) ? await add(policy) : undefined;
    if (why !== undefined) left.push({ policy, why });
  }
  let idle = 0;
  for (const text of drawnPolicies(catalogue, seed)) {
    if (found.length === 0 || found.length >= most || idle++ >= PATIENCE) break;
    const before = found.length;
    await add(text);
    if (found.length > before) idle = 0;
  }
  return { candidates: inOrder(found), left };
}

/** A policy at every budget that it fits, and the names of the signals that it reads. */
interface Found {
  readonly at: readonly Candidate[];
  readonly reads: string;
}

/**
 * Returns candidates in the order in which they are asked, so that a choice that runs out of time has seen the widest
 * part: the recommended ones, then in turns one of those that read the same signals, and last what takes further passes
 * over the prompts.
 */
function inOrder(found: readonly Found[]): readonly Candidate[] {
  const turns = new Map<string, number>(),
    ranked = found.map(({ at, reads }) => {
      const turn = turns.get(reads) ?? 0;
      turns.set(reads, turn + 1);
      return { at, passes: Math.floor(at[0].cost), turn: RECOMMENDED.has(at[0].policy) ? -1 : turn };
    });
  return ranked.sort((a, b) => a.passes - b.passes || a.turn - b.turn).flatMap(({ at }) => at);
}

const RECOMMENDED: ReadonlySet<string> = new Set(recommendedPolicies.map(({ policy }) => policy));
/** A yardstick, not a choice. */
const RANDOM: ReadonlySet<string> = new Set(['random']);
