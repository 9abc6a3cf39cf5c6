import { isFactory } from '../piece/declare.ts';
import type { AnyFactory } from '../piece/declare.ts';
import { KvError } from '../tensor/errors.ts';
import { didYouMean } from '../piece/nearest.ts';
import { excerpt } from './policy-calls.ts';
import { presentName } from './renamed.ts';

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
 * Looks up a name: `name`, or `package:name` if two packages have it.
 * @throws KvError for a name that no package has, or that several have.
 */
export function lookUp(known: Registry, text: string): AnyFactory {
  const [, from, name = text] = /^(.*):([^:]*)$/.exec(text) ?? [];
  const held = (known.get(name) ?? []).filter((entry) => from === undefined || entry.package === from);
  const [first] = held;
  if (first === undefined) {
    const present = presentName(name);
    throw new KvError(
      'policy',
      present === undefined
        ? `expected the name of a method or piece${didYouMean(name, [...known.keys()])}, got ${excerpt(text)}`
        : `expected the name of a method or piece, got ${excerpt(text)}: it is named ${present} now`,
    );
  }
  const packages = [...new Set(held.map((entry) => entry.package))];
  if (packages.length > 1)
    throw new KvError(
      'policy',
      `'${name}' is in more than one package: expected ${packages.map((one) => `'${one}:${name}'`).join(' or ')}, got ${excerpt(text)}`,
    );
  return first.factory;
}
