import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KvError } from '@kv/core';
import { installedFolder } from '../optional-package.ts';
import { entryOf, manifestOf } from './installed.ts';
import type { PackageManifest } from './installed.ts';

/** Larger files, which are not code, are identified by size and time. */
const READ_WHOLE = 2 ** 26;
/** Files that are shipped with code and never run. */
const IDLE = /\.(?:map|md|d\.[cm]?ts)$/;
/** A package loads only one of these folders. */
const EITHER = ['dist', 'src'];

interface Code {
  /** Identifier such as `@kv/core@0.0.0+0123456789abcdef`. */
  readonly text: string;
  /** Folders of the packages that it depends on. */
  readonly needs: readonly string[];
}
const known = new Map<string, Code>();

/**
 * Returns identifiers of the code of packages and their dependencies, such as `@kv/core@0.0.0+0123456789abcdef`: name,
 * version and a digest of the files, read once per process. Piece packages are only included if a policy text names
 * them.
 */
export function codeOf(folders: Iterable<string>): readonly string[] {
  const all = new Map<string, string>();
  for (const left = [...folders]; left.length > 0; ) {
    const folder = realpathSync(left.pop() as string);
    if (all.has(folder)) continue;
    const code = known.get(folder) ?? read(folder);
    known.set(folder, code);
    all.set(folder, code.text);
    left.push(...code.needs);
  }
  return [...all.values()];
}

function read(folder: string): Code {
  const manifest = manifestOf(folder);
  if (!manifest) throw new KvError(folder, 'expected a package with its package.json, got none');
  const { name, version = '0.0.0', dependencies, peerDependencies, kv } = manifest,
    text = `${name}@${version}`;
  // a registry's version never changes; and packages of weights without code have digests of their own
  if (!kv && (folder.includes(`${sep}node_modules${sep}`) || !isFile(fileURLToPath(entryOf(folder, manifest)))))
    return { text, needs: [] };
  const needs = Object.keys({ ...dependencies, ...peerDependencies }).flatMap(
    (other) => installedFolder(other, folder) ?? [],
  );
  return {
    text: `${text}+${packageDigest(folder, manifest)}`,
    needs: kv?.pieces ? needs : needs.filter((other) => !manifestOf(other)?.kv?.pieces),
  };
}

/** Returns a digest of the files that a package ships and loads: of `dist` and `src` only the one with its entry. */
export function packageDigest(folder: string, manifest: PackageManifest): string {
  const within = (path: string): string => relative(folder, path).replaceAll(sep, '/'),
    first = (path: string): string => path.replace(/^\.\//, '').split('/')[0],
    entry = first(within(fileURLToPath(entryOf(folder, manifest)))),
    shipped = manifest.files?.map(first),
    ships = (name: string): boolean =>
      name === entry ||
      ((shipped?.some((one) => one.includes('*') || one === name) ?? true) &&
        !(EITHER.includes(entry) && EITHER.includes(name)));
  const files = readdirSync(folder)
    .filter((name) => name !== 'package.json' && !name.startsWith('.') && ships(name))
    .flatMap((name) => filesIn(join(folder, name)))
    .map((path) => [within(path), path] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return sha256(JSON.stringify(files.map(([name, path]) => [name, sha256(contentOf(path))])));
}

function filesIn(path: string): readonly string[] {
  if (IDLE.test(path) || path.endsWith(`${sep}node_modules`)) return [];
  if (lstatSync(path).isDirectory()) return readdirSync(path).flatMap((name) => filesIn(join(path, name)));
  return isFile(path) ? [path] : [];
}

/** Returns the bytes that a file's digest covers. */
export function contentOf(path: string): Buffer {
  const { size, mtimeMs } = statSync(path);
  return size > READ_WHOLE ? Buffer.from(`${size} ${mtimeMs}`) : readFileSync(path);
}

export const sha256 = (data: string | Uint8Array): string =>
  createHash('sha256').update(data).digest('hex').slice(0, 16);
export const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;
