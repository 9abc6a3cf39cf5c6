import { isPiece, KvError } from '@kv/core';
import type { Piece, Policy } from '@kv/core';
import { parsePolicy, policies, policyCalls, printCalls, unknownName } from '@kv/policies';
import type { FoundPiece, OptionValues, Term, UnknownName } from '@kv/policies';
import { didYouMean } from '@kv/core';
import { installedPieces } from './installed-pieces.ts';
import type { Factory, InstalledPiece } from './installed-pieces.ts';
import { importPolicyModule, looksLikePath } from './policy-module.ts';

export interface ResolveOptions {
  /** Where paths and packages are looked for. */
  readonly cwd: string;
  /** For a policy of the catalogue that draws at random and was given no seed. */
  readonly seed?: number;
}

/**
 * The policy that a text names: one of `@kv/policies`, pieces with `∘` between them, the project's or installed, or a
 * module that exports `policy`.
 * @throws KvError in one sentence
 */
export async function resolvePolicy(text: string, { cwd, seed }: ResolveOptions): Promise<Policy> {
  const said = seed === undefined ? text : seeded(text, seed),
    found = new Map<string, FoundPiece>();
  for (;;) {
    try {
      return parsePolicy(said, { find: (name) => found.get(name) });
    } catch (error) {
      const unknown = unknownName(error);
      if (!unknown || found.has(unknown.name)) throw error;
      found.set(unknown.name, await lookUp(unknown, cwd));
    }
  }
}

function seeded(text: string, seed: number): string {
  const [only, ...more] = policyCalls(text),
    { name, args = [] } = only;
  const draws = more.length === 0 && Object.hasOwn(policies, name) && Object.hasOwn(policies[name].options, 'seed');
  return draws && !args.some(({ key }) => key === 'seed')
    ? printCalls([{ ...only, args: [...args, { key: 'seed', calls: [{ name: String(seed) }] }] }])
    : text;
}

/** What a name that the catalogue does not have stands for. */
async function lookUp({ sort, at, name, known }: UnknownName, cwd: string): Promise<FoundPiece> {
  if (sort === 'option')
    throw new KvError(
      at,
      `expected ${known.length === 0 ? 'no options' : `the options ${known.join(', ')}`}, got '${name}'${didYouMean(name, known)}`,
    );
  if (looksLikePath(name)) return exportedPiece(name, await importPolicyModule(name, cwd));
  const installed = await installedPieces(cwd),
    piece = installed.find((one) => one.name === name);
  if (piece) return installedPiece(piece);
  const module = sort === 'policy' ? await importPolicyModule(name, cwd, true) : undefined;
  if (module) return exportedPiece(name, module);
  if (sort === 'policy')
    throw new KvError(
      'policy',
      `expected the name of a policy${didYouMean(name, known)}, pieces with ∘ between them, or a module that exports 'policy', got ${JSON.stringify(name)}: 'kv pieces' lists the names`,
    );
  const names = [...new Set([...known, ...installed.map((one) => one.name)])];
  throw new KvError(
    'policy',
    `expected the name of an installed piece${didYouMean(name, names)}, got '${name}': 'kv pieces' lists the names`,
  );
}

const installedPiece = ({ name, options, around, make }: InstalledPiece): FoundPiece => ({
  options,
  open: true,
  ...(around && { around }),
  make: (given, terms) => made(name, make, given, inner(around, terms)),
});

/** What a module exports as `policy`, with the options that it is given if it is a function. */
const exportedPiece = (name: string, exported: unknown): FoundPiece => ({
  options: {},
  open: true,
  make: (options = {}) => {
    if (typeof exported === 'function') return made(name, exported as Factory, options);
    if (Object.keys(options).length > 0)
      throw new KvError(name, "expected no options, since 'policy' is a policy and not a function that makes one");
    return checked(name, exported);
  },
});

/** The arguments before the options, as factories of core take them. */
const inner = (around: FoundPiece['around'], terms: readonly Term[] = []): readonly unknown[] =>
  around === 'weighted' ? terms : terms.map(([, piece]) => piece);

function made(name: string, factory: Factory, options: OptionValues = {}, terms: readonly unknown[] = []): Piece {
  try {
    return checked(name, factory(...terms, ...(Object.keys(options).length === 0 ? [] : [options])));
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(
      name,
      `expected a piece from these options, got ${(cause as Error).name}: ${(cause as Error).message}`,
    );
  }
}

function checked(name: string, value: unknown): Piece {
  if (isPiece(value)) return value;
  throw new KvError(
    name,
    `expected a piece or policy ({ protocol: 1, atoms, … }), got ${value === null ? 'null' : typeof value}`,
  );
}
