import type { AttendHook } from '@kv/core';
import type { Allowance, CompiledPolicy } from '@kv/core/engine';

/** Milliseconds of the stages of events. */
export interface EventTimes {
  /** Recording the policy's steps. */
  score: number;
  /** Reading their decisions. */
  settle: number;
  /** Moving the kept slots. */
  compact: number;
}

/**
 * What one event did, by layer and KV head, in the order of the event's layers. Holds arrays only: a sequence keeps its
 * last result, and a closure would keep the event with all that it computed, and the events before it.
 */
export interface EventResult {
  /** Slots allowed, `[layer][kvHead]`. */
  readonly budgets: readonly (readonly number[])[];
  /** Positions kept, ascending. */
  readonly kept: readonly (readonly Uint32Array[])[];
  /** Levels of these slots, indexes among `LEVELS`, once a policy has demoted some. */
  readonly levels?: readonly (readonly Uint8Array[])[];
  /** Unit of every position, where the policy has cut the text by position. */
  readonly units?: Uint32Array;
  /** Notes that more was kept than a share allows, because it was forced. */
  readonly notes: readonly string[];
}

/** Joins the results of events over consecutive layers into one. */
export const joinEvents = (events: readonly EventResult[]): EventResult => ({
  budgets: events.flatMap(({ budgets }) => budgets),
  kept: events.flatMap(({ kept }) => kept),
  ...(events[0]?.units && { units: events[0].units }),
  ...(events.some(({ levels }) => levels) && { levels: events.flatMap(({ levels = [] }) => levels) }),
  notes: [...new Set(events.flatMap(({ notes }) => notes))],
});

/**
 * Returns the result of an event whose policy demotes nothing with the levels that slots have of the events before it.
 * @param own level of the slots that none of these has seen
 */
export function withLevels(next: EventResult, before: EventResult | undefined, own: number): EventResult {
  const { levels, kept } = before ?? {};
  if (next.levels || !levels || !kept) return next;
  const of = (positions: Uint32Array, l: number, g: number): Uint8Array => {
    const at = new Map(Array.from(kept[l][g], (position, i) => [position, levels[l][g][i]]));
    return Uint8Array.from(positions, (position) => at.get(position) ?? own);
  };
  return { ...next, levels: next.kept.map((heads, l) => heads.map((positions, g) => of(positions, l, g))) };
}

/** The budget of a KV head. */
export interface EventBudget extends Allowance {
  /** Whether its share is a share of all tokens so far, measured again at every event. */
  readonly follows?: boolean;
}

/** The policy and budget that a sequence runs under now. Immutable: replaced as a whole. */
export interface ActivePolicy {
  /** The compiled policy. */
  readonly policy: CompiledPolicy;
  /** Absent where nothing evicts. */
  readonly budget?: EventBudget;
  /** The last event, over all layers. */
  readonly last?: EventResult;
  /** What the prompt was read under, if tokens are generated under another policy or budget. */
  readonly prompt?: ActivePolicy;
  /** Adds a term to attention: of this policy, or of the last one before it that has such a hook, whose slots left. */
  readonly attends?: AttendHook;
}

/** Returns the active policy for this policy and budget, with the last event of the one before, and its term if it has none. */
export const activePolicyOf = (
  policy: CompiledPolicy,
  budget: EventBudget | undefined,
  { last, attends: before }: Pick<ActivePolicy, 'last' | 'attends'> = {},
): ActivePolicy => {
  const attends = policy.hooks('attend')[0] ?? before;
  return { policy, ...(budget && { budget }), ...(last && { last }), ...(attends && { attends }) };
};

/** Returns `next` as what tokens are generated under from now on; `read` is what the prompt was read under. */
export const decodingBy = (next: ActivePolicy, { prompt: _, ...read }: ActivePolicy): ActivePolicy => ({
  ...next,
  prompt: read,
});

/** Returns the most slots that a head may hold: those asked for, or what the last event gave one. */
export const mostOf = ({ budget, last }: ActivePolicy): number =>
  Math.max(budget?.slots ?? 0, ...(last?.budgets ?? []).flat());

/** Returns whether events evict under this policy. */
export const evicts = (active: ActivePolicy): active is ActivePolicy & { readonly budget: EventBudget } =>
  active.policy.evicts && active.budget !== undefined;

/** Whether tokens of this phase are fed otherwise than without the policy: hidden from others, or frozen. */
export const altersReading = ({ hooks }: CompiledPolicy, phase: 'prefill' | 'decode'): boolean =>
  (phase === 'prefill' && hooks('freeze').length > 0) ||
  hooks('view').some(({ during }) => during === 'both' || during === phase);

/** States of pieces. */
interface WithStates {
  readonly states: { has(id: string): boolean };
}

/** Returns the hook that adds a term to the attention of a layer, once something was folded there. */
export const termOf = ({ attends }: ActivePolicy, { states }: WithStates): AttendHook | undefined =>
  attends?.needs.every(({ id }) => states.has(id)) ? attends : undefined;

/** Returns what goes on under a policy that comes next: the last event, and the term of attention once slots were folded. */
export function carriedOn(active: ActivePolicy, layers: readonly WithStates[]): Pick<ActivePolicy, 'last' | 'attends'> {
  const attends = layers.map((layer) => termOf(active, layer)).find((term) => term);
  return { ...(active.last && { last: active.last }), ...(attends && { attends }) };
}

/** What says which term a hook adds. */
export interface SavedTerm {
  readonly by: string;
  readonly states: readonly string[];
}
export const savedTerm = ({ label, needs }: AttendHook): SavedTerm => ({
  by: label,
  states: needs.map(({ id }) => id),
});
/** Whether a hook goes on with what another one reads: of the same label, and the same states. */
export const sameTerm = (hook: AttendHook, { by, states }: SavedTerm): boolean =>
  hook.label === by && hook.needs.length === states.length && hook.needs.every(({ id }) => states.includes(id));
