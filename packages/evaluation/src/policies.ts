import { lookUp, parsePolicy } from '@kv/core';
import { policyCalls } from '@kv/core/engine';
import type { Policy, Registry } from '@kv/core';
import type { PolicyCall } from '@kv/core/engine';
import { catalogue } from '@kv/policies';

/** Returns the names that a policy text may use, given the calls in it. */
export type RegistryOf = (calls: readonly PolicyCall[]) => Registry | Promise<Registry>;

/** Options for parsing policy texts. */
export interface PolicyNaming {
  /** Names that policy texts may use. @defaultValue the catalogue of `@kv/policies` */
  readonly names?: RegistryOf | undefined;
  /**
   * Returns identifiers of the code that results depend on in addition to the policy texts, such as packages with
   * digests of their files; results of other code are not reused. @defaultValue nothing
   */
  readonly code?: (policies: readonly string[]) => Promise<readonly string[]>;
}

/**
 * Parses a policy, by default with names of the catalogue; `seed` applies to a random policy that names none. @throws
 * KvError in one sentence
 */
export async function policyOf(text: string, names: RegistryOf = () => catalogue, seed?: number): Promise<Policy> {
  const calls = policyCalls(text),
    known = await names(calls);
  return parsePolicy(seed === undefined ? calls : seeded(calls, seed, known), known);
}

function seeded(calls: readonly PolicyCall[], seed: number, known: Registry): readonly PolicyCall[] {
  const [only, ...more] = calls;
  const { args = [] } = only;
  if (more.length > 0 || args.some(({ key }) => key === 'seed')) return calls;
  if (!Object.hasOwn(lookUp(known, only.name).description.options, 'seed')) return calls;
  return [{ ...only, args: [...args, { key: 'seed', calls: [{ name: String(seed) }] }] }];
}
