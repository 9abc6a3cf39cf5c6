import { KvError, slotsOf } from '@kv/core';
import { compile, expectBudget, isState, planBudgets, signalKey } from '@kv/core/engine';
import type { AnySignal, Budget, Policy } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { SessionShape } from './shape.ts';

/** What a policy needs of the engine, determined before the first token. */
export interface PolicyNeeds {
  readonly compiled: CompiledPolicy;
  /** Number of latest queries to record; 0 for none. */
  readonly window: number;
  readonly text: boolean;
  readonly rope: boolean;
}

/** What the engine can provide. */
interface Offers {
  /** Whether the graph outputs each layer's queries. */
  readonly queries: boolean;
  readonly text: boolean;
}

const FREE = ['keys', 'values', 'positions', 'biases'];
const QUERIES = /^(?:queries|attention\.(?:window|last|max))$/;

/**
 * Returns what a policy needs of the engine. @throws KvError for a policy that this engine cannot run, or that lacks a
 * budget.
 */
export function demandsOf(
  policy: Policy,
  budget: Budget | undefined,
  shape: SessionShape,
  offers: Offers,
): PolicyNeeds {
  const compiled = compile(policy),
    { label, steps, choosesBudget } = compiled,
    step = compiled.hooks('step'),
    needs = [...compiled.needs, ...step.flatMap((hook) => hook.needs)];
  const refuse = (sentence: string): never => {
    throw new KvError('withPolicy', sentence);
  };
  for (const sort of ['view', 'freeze', 'wrapSelect', 'compact', 'evict', 'attend'] as const) {
    const [hook] = compiled.hooks(sort);
    if (hook)
      refuse(`'${hook.label}' acts inside attention or moves numbers of the cache, expected a policy that evicts`);
  }
  if (!compiled.evicts)
    refuse(`'${label}' leaves no kept slots, expected a policy that ends in a selector such as topK`);
  if (compiled.levels)
    refuse(
      `'${label}' stores slots at levels of their own, which the caches of an export cannot hold: expected a policy without demotions such as levels`,
    );
  if (budget === undefined) expectBudget(compiled, budget);
  const allotter = steps.find(({ kind, plan, forces }) => kind === 'allocator' && !plan && !forces),
    uneven = allotter?.name ?? (choosesBudget || planned(compiled, budget ?? 1, shape) ? label : undefined);
  if (allotter?.beforeSelector)
    refuse(
      `'${allotter.name}' divides each budget while an event runs, and this engine takes budgets that are known before it: expected a policy without it`,
    );
  if (uneven !== undefined)
    refuse(
      `'${uneven}' gives layers or heads budgets of their own, which this engine cannot hold: in its caches all have as many slots`,
    );
  for (const need of needs) {
    if (isState(need) || FREE.includes(need.id)) continue;
    if (need.id === 'tokens' && !offers.text)
      refuse(`'${label}' reads text, so the model's tokenizer is expected too: withPolicy(model, { tokenizer, ... })`);
    if (QUERIES.test(need.id) && !offers.queries)
      refuse(
        `'${label}' reads ${signalKey(need)}, which this model's graph does not give: expected its 'source', from which a graph with the queries is loaded`,
      );
    if (need.id === 'rope' && shape.fromMask)
      refuse(
        `'${label}' reads rope, expected an export that takes position_ids, got one that counts positions by the mask`,
      );
    if (!(need.id === 'tokens' || QUERIES.test(need.id) || (need.id === 'rope' && !need.provide)))
      refuse(`'${label}' reads the signal ${signalKey(need)}, which this engine does not have`);
  }
  expectBudget(compiled, budget); // what cannot run here at any budget is told first
  return {
    compiled,
    window: Math.max(0, ...needs.filter(({ id }) => QUERIES.test(id)).map(windowOf)),
    text: needs.some(({ id }) => id === 'tokens'),
    rope: needs.some(({ id }) => id === 'rope'),
  };
}

const windowOf = ({ id, args }: AnySignal): number => (id === 'attention.last' ? 1 : Number(args?.w ?? 0));

/** Whether the policy's host allocators plan unequal budgets. */
function planned(compiled: CompiledPolicy, budget: Budget, { layers, kvHeads }: SessionShape): boolean {
  const slots = slotsOf(budget, 4096),
    full = Array.from({ length: layers }, () => new Array<number>(kvHeads).fill(4 * slots + 64)),
    { budgets } = planBudgets(compiled, slots, full);
  return budgets.flat().some((b) => b !== budgets[0][0]);
}
