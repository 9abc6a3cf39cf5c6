import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isPiece, scorer, signalKey } from '@kv/core';
import type { AnyPiece, Atom } from '@kv/core';
import { parsePolicySpec } from './policy-spec.ts';
import type { OptionValue } from './policy-spec.ts';

/** A piece that some installed package exports. */
export interface InstalledPiece {
  readonly name: string;
  readonly kind: string;
  /** Signals that it reads. */
  readonly needs: readonly string[];
  /** Options with their defaults, as its label shows them. */
  readonly options: Readonly<Record<string, OptionValue>>;
  /** Package and version. */
  readonly source: string;
  readonly about: string;
  readonly make: (options?: unknown) => unknown;
}

interface Manifest { readonly name: string; readonly version?: string; readonly description?: string; readonly keywords?: readonly string[]; readonly exports?: Readonly<Record<string, unknown>>; readonly main?: string }
interface Package { readonly folder: string; readonly manifest: Manifest }

/** Packages of pieces: a family of @kv (`@kv/scorers-…`), core with its transforms, or any with the keyword `kv-piece`. */
const holdsPieces = ({ name, keywords = [] }: Manifest): boolean => name === '@kv/core' || /^@kv\/[a-z]+s-[a-z0-9-]+$/.test(name) || keywords.includes('kv-piece');

/** Every piece of the packages beside kv and in the working folder; of two with one name the first stays. */
export async function installedPieces(cwd: string): Promise<readonly InstalledPiece[]> {
  const found = new Map<string, InstalledPiece>();
  for (const pack of installedPackages(cwd)) {
    for (const piece of await piecesOf(pack)) if (!found.has(piece.name)) found.set(piece.name, piece);
  }
  return [...found.values()];
}

function installedPackages(cwd: string): readonly Package[] {
  const found = new Map<string, Package>();
  for (const start of [dirname(fileURLToPath(import.meta.url)), cwd]) {
    for (let folder = start; ; folder = dirname(folder)) {
      for (const pack of packagesIn(join(folder, 'node_modules'))) if (!found.has(pack.manifest.name)) found.set(pack.manifest.name, pack);
      if (dirname(folder) === folder) break;
    }
  }
  return [...found.values()].sort((a, b) => a.manifest.name.localeCompare(b.manifest.name));
}

const names = (folder: string): readonly string[] => (existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('.')) : []);

function packagesIn(modules: string): readonly Package[] {
  const folders = names(modules).flatMap((name) => (name.startsWith('@') ? names(join(modules, name)).map((inner) => join(modules, name, inner)) : [join(modules, name)]));
  return folders.flatMap((folder) => {
    try {
      const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
      return holdsPieces(manifest) ? [{ folder, manifest }] : [];
    } catch {
      return [];
    }
  });
}

async function piecesOf({ folder, manifest }: Package): Promise<readonly InstalledPiece[]> {
  const module = await load(folder, manifest);
  return Object.entries(module).flatMap(([name, exported]) => {
    const piece = typeof exported === 'function' ? sample(name, exported as (...args: unknown[]) => unknown) : undefined;
    return piece ? [{
      name, kind: kindsOf(piece), needs: [...new Set(piece.atoms.flatMap((atom) => atom.needs.map(signalKey)))], options: optionsOf(piece),
      source: `${manifest.name}@${manifest.version ?? '0.0.0'}`, about: manifest.description ?? '', make: exported as (options?: unknown) => unknown,
    }] : [];
  });
}

/** By name where kv itself depends on it, else by the file its manifest names. */
async function load(folder: string, { name, exports, main }: Manifest): Promise<Readonly<Record<string, unknown>>> {
  const entry = exports?.['.'];
  const file = typeof entry === 'string' ? entry : (entry as { readonly import?: string; readonly default?: string } | undefined)?.import ?? (entry as { readonly default?: string } | undefined)?.default ?? main ?? 'index.js';
  for (const specifier of [name, pathToFileURL(join(folder, file)).href]) {
    try {
      return await import(/* @vite-ignore */ specifier) as Readonly<Record<string, unknown>>;
    } catch {
      continue;
    }
  }
  return {};
}

const ANY = scorer('any', [], ({ ops, at }) => ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] }));

/** A piece of this factory with its defaults, or with a scorer where it asks for one; undefined for functions of another sort. */
function sample(name: string, factory: (...args: unknown[]) => unknown): AnyPiece | undefined {
  for (const args of [[], [ANY], [ANY, ANY]]) {
    try {
      const piece = factory(...args);
      if (piece instanceof Promise) piece.catch(() => {});
      if (isPiece(piece) && piece.name.split(/[( ]/)[0] === name) return piece;
    } catch {
      continue;
    }
  }
  return undefined;
}

const kindsOf = ({ atoms }: AnyPiece): string => [...new Set((atoms as readonly Atom[]).map((atom) => (atom.at === 'event' ? atom.kind : `${atom.at} hook`)))].join(' + ');

function optionsOf({ label }: AnyPiece): Readonly<Record<string, OptionValue>> {
  try {
    return parsePolicySpec(label)[0]?.options ?? {};
  } catch {
    return {};
  }
}
