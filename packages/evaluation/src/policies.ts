import { lookUp, parsePolicy } from '@kv/core';
import { policyCalls } from '@kv/core/engine';
import type { Policy, Registry } from '@kv/core';
import type { PolicyCall } from '@kv/core/engine';
import { catalogue } from '@kv/policies';

/** What the text of a policy may name, by what was read of it. */
export type RegistryOf = (calls: readonly PolicyCall[]) => Registry | Promise<Registry>;

/** How policy texts are understood. */
export interface PolicyNaming {
  /** @defaultValue the catalogue of `@kv/policies` */
  readonly names?: RegistryOf | undefined;
  /**
   * What results come from beside texts of policies, such as packages with digests of their files: results of other
   * code are not taken for theirs. @defaultValue nothing
   */
  readonly code?: (policies: readonly string[]) => Promise<readonly string[]>;
}

/**
 * The policy of a text, by default over the catalogue; one that draws at random and names no seed draws by this one.
 * @throws KvError in one sentence
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
  if (!Object.hasOwn(lookUp(known, only.name, true).description.options, 'seed')) return calls;
  return [{ ...only, args: [...args, { key: 'seed', calls: [{ name: String(seed) }] }] }];
}
