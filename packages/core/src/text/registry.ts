import { isFactory } from '../piece/declare.ts';
import type { AnyFactory } from '../piece/declare.ts';
import { KvError } from '../tensor/errors.ts';
import { didYouMean } from '../piece/nearest.ts';
import { excerpt } from './policy-calls.ts';

/** A declared thing, and the package that exports it. */
export interface RegistryEntry {
  readonly factory: AnyFactory;
  readonly package: string;
}
/** What texts may name: declarations of packages, by name. */
export type Registry = ReadonlyMap<string, readonly RegistryEntry[]>;

/**
 * Returns every declared export of modules, keyed by package name. Exports are recognised by their description; none of
 * them is called.
 * @param modules namespaces of modules, by package name
 * @param base a registry to add to, such as the catalogue. @defaultValue empty
 */
export function registry(modules: Readonly<Record<string, object>>, base: Registry = new Map()): Registry {
  const found = new Map<string, readonly RegistryEntry[]>(base);
  for (const [name, module] of Object.entries(modules))
    for (const factory of Object.values(module).filter(isFactory)) {
      const before = found.get(factory.description.name) ?? [];
      if (!before.some((entry) => entry.factory === factory))
        found.set(factory.description.name, [...before, { factory, package: name }]);
    }
  return found;
}

/** Returns all entries of a registry, in the order of its packages. */
export const entries = (known: Registry): readonly RegistryEntry[] => [...known.values()].flat();

/**
 * Looks up a name: `name`, or `package:name` if two packages have it. Alone in a text a method takes precedence; within
 * a composition a piece does.
 * @param alone whether the name is the whole text. @defaultValue false
 * @throws KvError for a name that no package has, or that several have.
 */
export function lookUp(known: Registry, text: string, alone = false): AnyFactory {
  const [, from, name = text] = /^(.*):([^:]*)$/.exec(text) ?? [];
  const held = (known.get(name) ?? []).filter((entry) => from === undefined || entry.package === from);
  const fits = held.filter(({ factory }) => (factory.description.kind === 'method') === alone);
  const [first, second] = fits.length > 0 ? fits : held;
  if (first === undefined) {
    const names = [...known.keys()];
    throw new KvError(
      'policy',
      `expected the name of a method or piece${didYouMean(name, names)}, got ${excerpt(text)}`,
    );
  }
  const rivals = (fits.length > 0 ? fits : held).filter((entry) => entry.package !== first.package);
  if (second !== undefined && rivals.length > 0)
    throw new KvError(
      'policy',
      `'${name}' is in more than one package: expected ${[first, ...rivals].map((entry) => `'${entry.package}:${name}'`).join(' or ')}, got ${excerpt(text)}`,
    );
  return first.factory;
}
