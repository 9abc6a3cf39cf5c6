import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compose, isPiece, signalKey } from '@kv/core';
import { scorer, selector } from '@kv/core/old';
import type { AnyPiece, Atom } from '@kv/core';
import { optionValue, policyCalls } from '@kv/policies';
import type { Call, OptionValues, PieceEntry } from '@kv/policies';

/** A piece that some installed package exports. */
export interface InstalledPiece {
  readonly name: string;
  readonly kind: string;
  /** Signals that it reads. */
  readonly needs: readonly string[];
  /** Options with their defaults, as its label shows them. */
  readonly options: OptionValues;
  /** What it stands around, as its label shows it. */
  readonly around: PieceEntry['around'];
  /** Package and version. */
  readonly source: string;
  readonly about: string;
  readonly make: Factory;
}
export type Factory = (...args: readonly unknown[]) => unknown;

interface Manifest {
  readonly name: string;
  readonly version?: string;
  readonly description?: string;
  readonly keywords?: readonly string[];
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly main?: string;
}
interface Package {
  readonly folder: string;
  readonly manifest: Manifest;
}

/**
 * Packages of pieces: a family of @kv (`@kv/scorers-…`), core with its transforms, or any with the keyword `kv-piece`.
 */
const holdsPieces = ({ name, keywords = [] }: Manifest): boolean =>
  name === '@kv/core' || /^@kv\/(?:[a-z]+s|sharing)-[a-z0-9-]+$/.test(name) || keywords.includes('kv-piece');

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
      for (const pack of packagesIn(join(folder, 'node_modules')))
        if (!found.has(pack.manifest.name)) found.set(pack.manifest.name, pack);
      if (dirname(folder) === folder) break;
    }
  }
  return [...found.values()].sort((a, b) => a.manifest.name.localeCompare(b.manifest.name));
}

const names = (folder: string): readonly string[] =>
  existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('.')) : [];

function packagesIn(modules: string): readonly Package[] {
  const folders = names(modules).flatMap((name) =>
    name.startsWith('@')
      ? names(join(modules, name)).map((inner) => join(modules, name, inner))
      : [join(modules, name)],
  );
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
    const found = typeof exported === 'function' ? samples(name, exported as Factory) : [];
    const [piece] = found;
    return piece
      ? [
          {
            name,
            kind: kindsOf(piece),
            needs: [...new Set(piece.atoms.flatMap((atom) => atom.needs.map(signalKey)))],
            ...shownOf(found),
            source: `${manifest.name}@${manifest.version ?? '0.0.0'}`,
            about: manifest.description ?? '',
            make: exported as Factory,
          },
        ]
      : [];
  });
}

/** By name where kv itself depends on it, else by the file its manifest names. */
async function load(folder: string, { name, exports, main }: Manifest): Promise<Readonly<Record<string, unknown>>> {
  const entry = exports?.['.'];
  const file =
    typeof entry === 'string'
      ? entry
      : ((entry as { readonly import?: string; readonly default?: string } | undefined)?.import ??
        (entry as { readonly default?: string } | undefined)?.default ??
        main ??
        'index.js');
  for (const specifier of [name, pathToFileURL(join(folder, file)).href]) {
    try {
      return (await import(/* @vite-ignore */ specifier)) as Readonly<Record<string, unknown>>;
    } catch {}
  }
  return {};
}

const ANY = scorer('any', [], ({ ops, at }) => ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] }));
const WHOLE = compose(
  ANY,
  selector('every', [], ({ ops, at }) =>
    ops.from({ data: Uint32Array.from({ length: at.slots }, (_, i) => i), shape: [1, at.slots] }, 'u32'),
  ),
);
/** What a factory may ask for: nothing but options, one scorer or more, scorers with weights, or a policy. */
const ASKED: readonly (readonly unknown[])[] = [[], [ANY], [ANY, ANY], [[1, ANY]], [WHOLE]];

/** The pieces that a factory makes of what it may ask for; none for functions of another sort. */
const samples = (name: string, factory: Factory): readonly AnyPiece[] =>
  ASKED.flatMap((args) => {
    try {
      const piece = factory(...args);
      if (piece instanceof Promise) piece.catch(() => {});
      return isPiece(piece) && piece.name.split(/[( ]/)[0] === name ? [piece] : [];
    } catch {
      return [];
    }
  });

const kindsOf = ({ atoms }: AnyPiece): string =>
  [...new Set((atoms as readonly Atom[]).map((atom) => (atom.at === 'event' ? atom.kind : `${atom.at} hook`)))].join(
    ' + ',
  );

/** Options with their defaults, and what stands inside, as labels show both. */
function shownOf(found: readonly AnyPiece[]): Pick<InstalledPiece, 'options' | 'around'> {
  const shown = found.flatMap(({ label }) => argsOf(label));
  const around = shown.flatMap(({ key, calls }): readonly PieceEntry['around'][] => {
    const inner = calls[0].name;
    if (key === undefined) return inner === ANY.name ? ['scorers'] : inner === `1*${ANY.name}` ? ['weighted'] : [];
    return (key === 'by' || key === 'of') && inner === ANY.name ? [key] : [];
  })[0];
  const options = argsOf(found[0].label).flatMap(({ key, calls }) => {
    const value = key === undefined || key === around || calls.length > 1 ? undefined : optionValue(calls[0]);
    return value === undefined ? [] : [[key, value] as const];
  });
  return { options: Object.fromEntries(options) as OptionValues, around };
}

function argsOf(label: string): NonNullable<Call['args']> {
  try {
    return policyCalls(label)[0]?.args ?? [];
  } catch {
    return [];
  }
}
