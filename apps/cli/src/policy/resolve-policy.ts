import { compose, isPiece, KvError } from '@kv/core';
import type { AnyPiece, Policy } from '@kv/core';
import { parsePolicy, pieces, policies } from '@kv/policies';
import type { PolicyEntry } from '@kv/policies';
import { didYouMean } from '../nearest.ts';
import { installedPieces } from './installed-pieces.ts';
import { importPolicyModule, looksLikePath } from './policy-module.ts';
import { parsePolicySpec, splitPieces } from './policy-spec.ts';
import type { OptionValue, PieceSpec } from './policy-spec.ts';

export interface ResolveOptions {
  /** Where paths and packages are looked for. */
  readonly cwd: string;
  /** For a policy of the catalogue that draws at random and was given no seed. */
  readonly seed?: number;
}

/**
 * The policy that a text names: one of `@kv/policies`, installed pieces with `∘` between them, or a module that exports `policy`.
 * @throws KvError in one sentence
 */
export async function resolvePolicy(text: string, { cwd, seed }: ResolveOptions): Promise<Policy> {
  const path = /^([^(]*)(?:\(.*\))?\s*$/s.exec(text)?.[1]?.trim() ?? '';
  if (looksLikePath(path)) return asPolicy(text, make(await importPolicyModule(path, cwd), parsePolicySpec(text)[0]!));
  const parts = splitPieces(text);
  // The project's own pieces may hold others, as in `weighted(0.5*recency,…)`; a third party's take options only.
  if (parts.length > 1 && parts.every((part) => Object.hasOwn(pieces, part.split('(')[0]!.trim()))) return asPolicy(text, parsePolicy(text));
  const specs = parsePolicySpec(text);
  const [first] = specs;
  const entry = specs.length === 1 ? catalogued(first!.name) : undefined;
  if (entry) return entry.make(checked(first!, entry.options, seed));
  if (specs.length > 1) return asPolicy(text, await composed(specs, cwd));
  const module = await importPolicyModule(first!.name, cwd, true);
  if (module) return asPolicy(text, make(module, first!));
  throw new KvError('policy', `expected the name of a policy${didYouMean(first!.name, Object.keys(policies))}, pieces with ∘ between them, or a module that exports 'policy', got ${JSON.stringify(text)}: 'kv pieces' lists the names`);
}

const catalogued = (name: string): PolicyEntry | undefined => (Object.hasOwn(policies, name) ? policies[name] : undefined);

/** The options of a spec, each known and of the type of its default. */
function checked({ name, options }: PieceSpec, defaults: PolicyEntry['options'], seed?: number): Readonly<Record<string, OptionValue>> {
  for (const [key, value] of Object.entries(options)) {
    const known = Object.hasOwn(defaults, key) ? defaults[key] : undefined;
    const names = Object.keys(defaults);
    if (known === undefined) throw new KvError(name, `expected ${names.length === 0 ? 'no options' : `the options ${names.join(', ')}`}, got '${key}'${didYouMean(key, names)}`);
    if (typeof value !== typeof known) throw new KvError(name, `${key} must be a ${typeof known} such as ${known}, got ${JSON.stringify(value)}`);
  }
  return seed !== undefined && Object.hasOwn(defaults, 'seed') && !Object.hasOwn(options, 'seed') ? { ...options, seed } : options;
}

async function composed(specs: readonly PieceSpec[], cwd: string): Promise<unknown> {
  const installed = await installedPieces(cwd);
  const pieces = specs.map((spec) => {
    const found = installed.find(({ name }) => name === spec.name);
    if (!found) throw new KvError('policy', `expected the name of an installed piece${didYouMean(spec.name, installed.map(({ name }) => name))}, got '${spec.name}': 'kv pieces' lists the names`);
    return made(spec, found.make);
  });
  return (compose as (...pieces: readonly AnyPiece[]) => unknown)(...pieces as AnyPiece[]);
}

/** What a module exports as `policy`, with the options of the spec if it is a function. */
function make(exported: unknown, spec: PieceSpec): unknown {
  if (typeof exported === 'function') return made(spec, exported as (options?: unknown) => unknown);
  if (Object.keys(spec.options).length > 0) throw new KvError(spec.name, "expected no options, since 'policy' is a policy and not a function that makes one");
  return exported;
}

function made(spec: PieceSpec, factory: (options?: unknown) => unknown): unknown {
  try {
    return Object.keys(spec.options).length === 0 ? factory() : factory(spec.options);
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(spec.name, `expected a policy from these options, got ${(cause as Error).name}: ${(cause as Error).message}`);
  }
}

/** Checks that a value is something an engine can run. */
function asPolicy(text: string, value: unknown): Policy {
  if (!isPiece(value)) throw new KvError('policy', `expected ${JSON.stringify(text)} to give a policy ({ protocol: 1, atoms, … }), got ${value === null ? 'null' : typeof value}`);
  if (value.from.includes('start') && (value.to === 'kept' || (value.to === 'same' && value.from.includes('kept')))) return value as Policy;
  throw new KvError('policy', `expected pieces from a scorer to a selector, got '${value.label}', which ${value.from.includes('start') ? `ends in ${value.to === 'same' ? 'what it was given' : value.to}` : `starts from ${value.from.join(' or ')}`}`);
}
