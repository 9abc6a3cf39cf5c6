import { lookUp, parsePolicy } from '@kv/core';
import { policyCalls, printCalls } from '@kv/core/engine';
import type { Policy, Registry } from '@kv/core';
import { catalogue } from '@kv/policies';

/** What a policy text may name. */
export type Names = (text: string) => Registry | Promise<Registry>;

/** How policy texts are understood. */
export interface Naming {
  /** @defaultValue the catalogue of `@kv/policies` */
  readonly names?: Names | undefined;
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
export async function policyOf(text: string, names: Names = () => catalogue, seed?: number): Promise<Policy> {
  const known = await names(text);
  return parsePolicy(seed === undefined ? text : seeded(text, seed, known), known);
}

function seeded(text: string, seed: number, known: Registry): string {
  const [only, ...more] = policyCalls(text);
  const { args = [] } = only;
  if (more.length > 0 || args.some(({ key }) => key === 'seed')) return text;
  if (!Object.hasOwn(lookUp(known, only.name, true).description.options, 'seed')) return text;
  return printCalls([{ ...only, args: [...args, { key: 'seed', calls: [{ name: String(seed) }] }] }]);
}
