import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { KvError, registry } from '@kv/core';
import { otherProtocol } from '@kv/core/engine';
import type { Registry } from '@kv/core';
import { catalogue } from '@kv/policies';

/** The used part of a manifest: `"kv": { "pieces": true }`, or the subpath that exports them. */
export interface PackageManifest {
  readonly name: string;
  readonly version?: string;
  readonly kv?: { readonly pieces?: true | string };
  readonly exports?: unknown;
  readonly main?: string;
  readonly files?: readonly string[];
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}
interface Package {
  readonly folder: string;
  readonly manifest: PackageManifest;
}
/** All installed pieces and methods, and the packages that could not be imported, each with a sentence. */
export interface InstalledPieces {
  readonly known: Registry;
  readonly versions: ReadonlyMap<string, string>;
  readonly failed: readonly string[];
}

/** Sources import sources: a workspace package is not built if kv itself runs from TypeScript. */
const CONDITIONS = import.meta.url.endsWith('.ts')
  ? ['@kv/source', 'node', 'import', 'default']
  : ['node', 'import', 'default'];
const found = new Map<string, Promise<InstalledPieces>>();

/**
 * Returns the catalogue and the pieces of every package, installed next to kv or the working folder or in kv's
 * workspace, whose manifest declares pieces. They are imported once; no function of theirs is called.
 */
export function installedPieces(cwd: string): Promise<InstalledPieces> {
  const known = found.get(cwd) ?? find(cwd);
  found.set(cwd, known);
  return known;
}

/**
 * Returns the pieces of one installed package in addition to those of `known`. @throws KvError if it is not installed,
 * or cannot be imported
 */
export async function packagePieces(name: string, cwd: string, known: Registry): Promise<Registry> {
  const found = packagesWithPieces(cwd).find(({ manifest }) => manifest.name === name);
  if (!found) throw new KvError(name, `expected an installed package whose manifest says "kv": { "pieces": true }`);
  const module = (await import(/* @vite-ignore */ entryOf(found.folder, found.manifest)).catch((cause: unknown) => {
    throw new KvError(name, `expected a package that can be imported, got ${String(cause)}`);
  })) as object;
  return registry({ [name]: module }, known);
}

/** Returns the catalogue and the pieces of these packages: all that untrusted texts may name. */
export async function catalogueWith(names: readonly string[] = [], cwd: string): Promise<Registry> {
  let known: Registry = catalogue;
  for (const name of names) known = await packagePieces(name, cwd, known);
  return known;
}

async function find(cwd: string): Promise<InstalledPieces> {
  const modules: Record<string, object> = {};
  const failed: string[] = [];
  const packages = packagesWithPieces(cwd);
  const ours = new Set([...catalogue.values()].flatMap((held) => held.map((entry) => entry.package)));
  for (const { folder, manifest } of packages.filter(({ manifest: { name } }) => !ours.has(name)))
    try {
      const module = (await import(/* @vite-ignore */ entryOf(folder, manifest))) as object;
      modules[manifest.name] = module;
      for (const [name, x] of Object.entries(module)) {
        const other = otherProtocol((x as { readonly description?: unknown } | null)?.description, name);
        if (other) failed.push(`${manifest.name}: ${other}`);
      }
    } catch (cause) {
      failed.push(`${manifest.name} could not be imported: ${cause instanceof Error ? cause.message : String(cause)}`);
    }
  return { known: registry(modules, catalogue), versions: versionsOf(packages), failed };
}

/** Returns the folders of the packages with pieces; imports nothing. */
export const installedFolders = (cwd: string): ReadonlyMap<string, string> =>
  new Map(packagesWithPieces(cwd).map(({ folder, manifest: { name } }) => [name, folder]));
const versionsOf = (packages: readonly Package[]): ReadonlyMap<string, string> =>
  new Map(packages.map(({ manifest: { name, version = '0.0.0' } }) => [name, version]));

function packagesWithPieces(cwd: string): readonly Package[] {
  const packages = new Map<string, Package>();
  for (const start of [dirname(fileURLToPath(import.meta.url)), cwd])
    for (const folder of parents(start))
      for (const pack of [...within(join(folder, 'node_modules')), ...workspace(folder)])
        if (!packages.has(pack.manifest.name)) packages.set(pack.manifest.name, pack);
  return [...packages.values()].sort((a, b) => a.manifest.name.localeCompare(b.manifest.name));
}
const parents = (folder: string): readonly string[] =>
  dirname(folder) === folder ? [folder] : [folder, ...parents(dirname(folder))];

/** Returns the packages of a clone, packages/FAMILY/NAME, whether or not they depend on each other. */
const workspace = (folder: string): readonly Package[] =>
  existsSync(join(folder, 'pnpm-workspace.yaml'))
    ? folders(join(folder, 'packages')).flatMap((family) => folders(family).flatMap(read))
    : [];
/** Returns the version of a package as resolved from a folder. */
export function versionOf(name: string, folder: string): string | undefined {
  for (const parent of parents(folder)) {
    const manifest = manifestOf(join(parent, 'node_modules', name));
    if (manifest) return manifest.version;
  }
  return undefined;
}
const within = (modules: string): readonly Package[] =>
  folders(modules).flatMap((folder) => (/[/\\]@[^/\\]+$/.test(folder) ? folders(folder) : [folder]).flatMap(read));

function folders(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
      .filter((name) => !name.startsWith('.'))
      .map((name) => join(folder, name));
  } catch {
    return []; // missing or unreadable
  }
}
function read(folder: string): readonly Package[] {
  const manifest = manifestOf(folder);
  return manifest?.kv?.pieces === true || typeof manifest?.kv?.pieces === 'string' ? [{ folder, manifest }] : [];
}
export function manifestOf(folder: string): PackageManifest | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as PackageManifest;
  } catch {
    return undefined;
  }
}

/** Returns the file that the manifest exports as `.` or as the subpath of its pieces. */
export function entryOf(folder: string, { kv, exports, main = 'index.js' }: PackageManifest): string {
  const subpath = typeof kv?.pieces === 'string' ? kv.pieces : '.';
  const target =
    isRecord(exports) && Object.keys(exports).some((key) => key.startsWith('.')) ? exports[subpath] : exports;
  const file = fileOf(target) ?? (subpath === '.' ? main : subpath);
  return pathToFileURL(join(folder, file)).href;
}
function fileOf(target: unknown): string | undefined {
  if (!isRecord(target)) return typeof target === 'string' ? target : undefined;
  const condition = CONDITIONS.find((name) => name in target);
  return condition === undefined ? undefined : fileOf(target[condition]);
}
const isRecord = (x: unknown): x is Readonly<Record<string, unknown>> => typeof x === 'object' && x !== null;
