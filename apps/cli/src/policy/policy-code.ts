import { dirname, isAbsolute, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KvError, parsePolicy } from '@kv/core';
import { policyCalls } from '@kv/core/engine';
import type { RegistryOf } from '@kv/evaluation';
import { webgpuFolder } from '../device.ts';
import type { EngineChoice } from '../engine.ts';
import { installedFolder } from '../optional-package.ts';
import { installedFolders } from './installed.ts';
import { ownPackage } from './own-packages.ts';
import { moduleUrl } from './policy-module.ts';
import { codeOf, contentOf, isFile, sha256 } from './package-code.ts';
import { registryFor, wordsIn } from './resolve-policy.ts';

const HERE = dirname(fileURLToPath(import.meta.url));
const SCRIPT = /\.[cm]?[jt]s$/;
/** Endings that an import may omit. */
const ENDINGS = ['', '.js', '.json', '/index.js'];

/**
 * Returns identifiers of the code that results of policies depend on, like `codeOf`: packages of their pieces, those
 * that run and judge every policy, and modules with a digest of their files. So results of other code are never reused.
 */
export async function policyCode(
  texts: Iterable<string>,
  cwd: string,
  engine: EngineChoice,
  names: RegistryOf = (calls) => registryFor(calls, cwd),
): Promise<readonly string[]> {
  const packages = new Set<string>(),
    modules = new Map<string, string>();
  for (const text of new Set(texts)) {
    const calls = policyCalls(text),
      known = await names(calls),
      { label } = parsePolicy(calls, known);
    for (const word of [...wordsIn(calls), ...wordsOfLabel(label)])
      for (const { package: from } of known.get(word) ?? known.get(word.slice(word.lastIndexOf(':') + 1)) ?? []) {
        // A module's factory has the word that named it as its name.
        const url = from === word ? moduleUrl(from, cwd) : undefined;
        if (url === undefined) packages.add(from);
        else if (!modules.has(from)) modules.set(from, moduleDigest(fileURLToPath(url)));
      }
  }
  return [...packagesCode(packages, cwd, engine), ...[...modules].map((module) => module.join(' '))].sort();
}

/** Returns identifiers of the code of piece packages, and of those that run and judge every policy on an engine. */
export function packagesCode(packages: Iterable<string>, cwd: string, engine: EngineChoice): readonly string[] {
  const policies = folderOf('@kv/policies', HERE),
    installedHere = installedFolders(cwd),
    gpu = engine === 'webgpu' ? webgpuFolder(cwd) : undefined;
  return codeOf([
    folderOf('@kv/evaluation', HERE),
    ...(gpu === undefined ? [] : [gpu]),
    // the catalogue imports its own pieces
    ...[...packages].map((name) => installedFolder(name, policies) ?? installedHere.get(name) ?? folderOf(name, HERE)),
  ]);
}

function folderOf(name: string, from: string): string {
  const folder = installedFolder(name, from);
  if (folder === undefined) throw new KvError(name, `expected an installed package, got none for ${from}`);
  return folder;
}

/** Returns the names of pieces in the label of a module's policy, which may be any text. */
function wordsOfLabel(label: string): readonly string[] {
  try {
    return label === '' ? [] : wordsIn(policyCalls(label));
  } catch {
    return [];
  }
}

/**
 * Returns a digest of a module, of every file that a string in it names by relative path, of those that they name, and
 * of their packages.
 */
function moduleDigest(entry: string): string {
  const parts = new Map<string, string>();
  for (const left = [entry]; left.length > 0; ) {
    const file = left.pop() as string;
    if (parts.has(file)) continue;
    const bytes = contentOf(file);
    parts.set(file, sha256(bytes));
    if (!SCRIPT.test(file)) continue;
    const source = bytes.toString('utf8');
    for (const [, , name = ''] of source.matchAll(/(['"`])(\.{1,2}\/[^'"`\n]{1,512})\1/g)) {
      const path = resolve(dirname(file), name);
      const found = ENDINGS.map((ending) => path + ending).find(isFile);
      if (found !== undefined) left.push(found);
    }
    for (const [, , name = ''] of source.matchAll(/\b(?:from|import|require)\b *\(? *(['"])([@\w][^'"\n]{0,256})\1/g)) {
      const from = /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name,
        folder = installedFolder(from, dirname(file)) ?? ownPackage(from);
      parts.set(from, folder === undefined ? '' : codeOf([folder]).join());
    }
  }
  const all = [...parts].map(([name, part]) => [isAbsolute(name) ? relative(dirname(entry), name) : name, part]).sort();
  return sha256(JSON.stringify(all));
}
