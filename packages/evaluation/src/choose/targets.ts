import { isState, planBudgets, signalKey } from '@kv/core/engine';
import type { AnySignal } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';

/** Engines that a choice can be for: this one, and those that `@kv/adapters-transformers` and `@kv/adapters-node-llama-cpp` serve. */
export const TARGETS = ['kv', 'transformers.js', 'node-llama-cpp'] as const;
/** An engine that a choice can be for. */
export type Target = (typeof TARGETS)[number];

const INSIDE = ['view', 'freeze', 'wrapSelect', 'compact', 'evict', 'attend'] as const;
const GIVEN: Readonly<Record<Exclude<Target, 'kv'>, readonly string[]>> = {
  'transformers.js': [
    ...['keys', 'values', 'positions', 'biases', 'tokens', 'rope', 'queries'],
    ...['attention.window', 'attention.last', 'attention.max'],
  ],
  'node-llama-cpp': ['positions', 'tokens'],
};

/**
 * Returns why an engine cannot run a policy, or undefined if it can, by the rules of its adapter: what acts inside
 * attention, signals that the engine keeps to itself, layers or heads with budgets of their own, and stored levels.
 */
export function refusedBy(target: Target, policy: CompiledPolicy): string | undefined {
  if (target === 'kv') return undefined;
  const hook = INSIDE.flatMap((at) => policy.hooks(at))[0];
  if (hook) return `'${hook.label}' acts inside attention`;
  if (policy.levels) return 'it stores slots at levels of their own';
  const given = (signal: AnySignal): boolean =>
      isState(signal) || (GIVEN[target].includes(signal.id) && !signal.provide),
    missing = [...policy.needs, ...policy.hooks('step').flatMap(({ needs }) => needs)].find((need) => !given(need));
  if (missing) return `it reads ${signalKey(missing)}, which ${target} does not give`;
  return target === 'transformers.js' && isUneven(policy)
    ? 'it gives layers or heads budgets of their own, and caches of transformers.js have as many slots in all'
    : undefined;
}

/** Whether layers or heads may end with different numbers of slots: by allocators that read scores, or by planned budgets. */
function isUneven(policy: CompiledPolicy): boolean {
  if (policy.choosesBudget || policy.steps.some(({ kind, plan, forces }) => kind === 'allocator' && !plan && !forces))
    return true;
  const [layers, kvHeads, slots] = [4, 2, 1024],
    full = Array.from({ length: layers }, () => Array.from({ length: kvHeads }, () => 4 * slots)),
    budgets = planBudgets(policy, slots, full).budgets.flat();
  return budgets.some((budget) => budget !== budgets[0]);
}
