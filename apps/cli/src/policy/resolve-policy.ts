import { KvError, parsePolicy } from '@kv/core';
import { compile, didYouMean, excerpt, policyCalls } from '@kv/core/engine';
import type { AnyFactory, Policy, Registry } from '@kv/core';
import type { Arg, PolicyCall } from '@kv/core/engine';
import type { Budget } from '@kv/models';
import { catalogue } from '@kv/policies';
import type { Command } from 'commander';
import { flagOf } from '../flags.ts';
import { plain } from '../plain.ts';
import { installedPieces } from './installed.ts';
import { looksLikePath, policyModule } from './policy-module.ts';

/**
 * Parses a policy text: methods and pieces of the catalogue or installed, with `∘` or `|` between them, and modules
 * that export `policy`. For the command line only: it imports what the text names.
 *
 * @throws KvError in one sentence
 */
export async function resolvePolicy(text: string, { cwd }: { readonly cwd: string }): Promise<Policy> {
  const calls = policyCalls(text),
    known = await registryFor(calls, cwd);
  try {
    return parsePolicy(calls, known);
  } catch (cause) {
    const unknown = KvError.is(cause) && cause.message.includes('expected the name of a method or piece'),
      failed = unknown ? (await installedPieces(cwd)).failed : [];
    if (!KvError.is(cause) || failed.length === 0) throw cause;
    throw new KvError(cause.at, `${cause.message.slice(cause.at.length + 2)}; ${failed.join('; ')}`);
  }
}

/** @throws KvError for a budget without a policy, which would keep everything */
export function checkPolicyNamed(command: Command): void {
  const { budget, loadCache } = command.opts<{ budget?: Budget; loadCache?: string }>();
  if (budget === undefined || loadCache !== undefined || command.getOptionValueSource('policy') === 'cli') return;
  throw new KvError(
    '--policy',
    `expected the policy that keeps a budget of ${budget}, such as --policy outstandingSentences ('kv pieces' lists them), got none`,
  );
}

/** @throws KvError for a flag that does nothing, as none of these policies evicts */
export function expectEvicting(
  policies: readonly Policy[],
  given: {
    readonly budget?: Budget | undefined;
    readonly block?: number | undefined;
    readonly every?: number | undefined;
  },
): void {
  const idle = (['budget', 'block', 'every'] as const).find((name) => given[name] !== undefined);
  if (idle === undefined || policies.some((policy) => compile(policy).evicts)) return;
  const labels = policies.map((policy) => `'${compile(policy).label || 'full'}'`);
  throw new KvError(
    flagOf(idle),
    `expected a policy that evicts, got ${[...new Set(labels)].join(' and ')}: name one with --policy, or leave ${flagOf(idle)} out`,
  );
}

/**
 * Parses a policy label of a file with names of the catalogue and of those that the command line named. Imports
 * nothing.
 */
export function policyOfFile(label: string, named: Registry = catalogue): Policy {
  return parsePolicy(label === '' ? 'full' : label, named);
}

/**
 * Returns the policy of a saved cache. @throws KvError about the file for a policy that only the command line may name
 */
export function policyOfCache(file: string, label: string): Policy {
  try {
    return policyOfFile(label);
  } catch (cause) {
    if (!KvError.is(cause)) throw cause;
    throw new KvError(
      file,
      `expected a cache whose policy kv brings along, or --policy to name another, got ${excerpt(label)}`,
    );
  }
}

/**
 * Returns the error, in words of the command line, of a policy that reads what a saved cache does not remember; any other
 * error as it is.
 * @param of what the cache is of
 */
export function notSaved(cause: unknown, file: string, policy: Policy, of: string): unknown {
  const [, signal, rest] =
    (KvError.is(cause) &&
      /^sequence: the signal (.+) was not remembered .*?(, or go on under .*)?$/.exec(cause.message)) ||
    [];
  if (signal === undefined) return cause;
  const { label } = compile(policy);
  return new KvError(
    '--policy',
    `'${label}' reads ${signal}, which ${plain(file)} does not remember: save ${of} under a policy that reads it, such as --policy '${label}' --budget 100%, which drops nothing${rest ?? ''}`,
  );
}

/**
 * Returns the catalogue and the modules that a text names, and installed pieces only if it names something else: a
 * command runs no code of a folder unless asked to.
 */
export async function registryFor(calls: readonly PolicyCall[], cwd: string): Promise<Registry> {
  const ours = wordsIn(calls).every((word) => looksLikePath(word) || inCatalogue(word));
  const { known, failed } = ours ? { known: catalogue, failed: [] } : await installedPieces(cwd);
  const modules = new Map<string, AnyFactory>();
  for (const word of wordsIn(calls)) {
    const alone = calls.length === 1 && calls[0].name === word;
    if (known.has(word.slice(word.lastIndexOf(':') + 1)) || !(looksLikePath(word) || alone)) continue;
    const factory = await policyModule(word, cwd);
    if (factory) modules.set(word, factory);
    else if (failed.length > 0)
      throw new KvError(
        'policy',
        `expected the name of a method or piece${didYouMean(word, [...known.keys()])}, got '${word}'; ${failed.join('; ')}`,
      );
  }
  return new Map([...known, ...[...modules].map(([name, factory]) => [name, [{ factory, package: name }]] as const)]);
}
/** @throws KvError for a text that names a module, since other machines have no such file */
export async function checkNoModule(text: string, cwd: string): Promise<void> {
  const calls = policyCalls(text),
    known = await registryFor(calls, cwd),
    module = wordsIn(calls).find((word) => (known.get(word) ?? []).some((entry) => entry.package === word));
  if (module !== undefined)
    throw new KvError(
      '--queue',
      `expected policies of the catalogue and of packages with pieces, which workers can have too, got the module '${module}'`,
    );
}
const inCatalogue = (word: string): boolean => {
  const [, from, name = word] = /^(.*):([^:]*)$/.exec(word) ?? [];
  return (catalogue.get(name) ?? []).some((entry) => from === undefined || entry.package === from);
};

/** Returns every piece name in the calls of a text. */
export const wordsIn = (calls: readonly PolicyCall[]): readonly string[] => [
  ...new Set(calls.flatMap(namesIn).map((name) => name.slice(name.lastIndexOf('*') + 1).trim())),
];
const namesIn = ({ name, args = [] }: PolicyCall): readonly string[] => [
  name,
  ...args.flatMap(({ key, calls }: Arg) =>
    key === undefined || calls.some((call) => call.args)
      ? calls.flatMap(namesIn)
      : key === 'by' || key === 'of'
        ? calls.flatMap(namesIn)
        : [],
  ),
];
