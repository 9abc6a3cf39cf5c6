import { KvError } from '@kv/core';
import { compile, isState, signalKey } from '@kv/core/engine';
import type { Policy } from '@kv/core';

/**
 * Returns the policy, parsed if it is text; the catalogue is loaded only for text.
 *
 * @throws KvError for a policy that reads more than tokens and positions, that does not evict or that demotes.
 */
export async function textual(given: Policy | string, where: string): Promise<Policy> {
  const policy = typeof given === 'string' ? (await import('@kv/policies')).policy(given) : given;
  expectTextual(policy, where);
  return policy;
}

export function expectTextual(policy: Policy, where: string): void {
  const compiled = compile(policy),
    { label, needs, evicts, levels } = compiled;
  for (const sort of ['view', 'freeze', 'wrapSelect', 'compact', 'evict', 'attend'] as const) {
    const [hook] = compiled.hooks(sort);
    if (hook) throw new KvError(where, `'${hook.label}' acts inside attention, which llama.cpp keeps to itself`);
  }
  if (!evicts)
    throw new KvError(where, `'${label}' leaves no kept slots, expected a policy that ends in a selector such as topK`);
  if (levels)
    throw new KvError(
      where,
      `'${label}' stores slots at levels of their own, which llama.cpp cannot hold: expected a policy without demotions such as levels`,
    );
  const missing = needs.find((need) => !isState(need) && !['tokens', 'positions'].includes(need.id));
  if (missing)
    throw new KvError(
      where,
      `'${label}' reads the signal ${signalKey(missing)}, which llama.cpp keeps to itself: expected a policy of tokens and positions`,
    );
}
