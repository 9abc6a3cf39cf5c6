import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parsePolicy } from '@kv/core';
import type { Names } from '@kv/evaluation';
import { installedVersions, versionOf } from './installed.ts';
import { moduleUrl } from './policy-module.ts';
import { named, wordsIn } from './resolve-policy.ts';

const HERE = dirname(fileURLToPath(import.meta.url));
const SCRIPT = /\.[cm]?[jt]s$/;
/** Larger files, which no code is, go by their size and time. */
const READ_WHOLE = 2 ** 26;
/** What a string may leave off the name of a file. */
const ENDINGS = ['', '.js', '.json', '/index.js'];

/**
 * What policies are made of beside their texts: packages of pieces with their versions, and modules with a digest of
 * their files. So results of other code are never taken for theirs.
 */
export async function policyCode(
  texts: Iterable<string>,
  cwd: string,
  names: Names = (text) => named(text, cwd),
): Promise<readonly string[]> {
  const versions = installedVersions(cwd);
  const code = new Set<string>();
  for (const text of new Set(texts)) {
    const known = await names(text);
    const { label } = parsePolicy(text, known);
    for (const word of [...wordsIn(text), ...wordsOfLabel(label)])
      for (const { package: from } of known.get(word) ?? known.get(word.slice(word.lastIndexOf(':') + 1)) ?? []) {
        // A module's factory is held under the word that named it.
        const url = from === word ? moduleUrl(from, cwd) : undefined;
        const version = versions.get(from) ?? versionOf(from, HERE);
        if (url !== undefined) code.add(`${from} ${moduleDigest(fileURLToPath(url))}`);
        else if (version !== undefined) code.add(`${from}@${version}`);
      }
  }
  return [...code].sort();
}

/** Names of pieces, which a policy of a module has in its label alone; a label of somebody else's may be any text. */
function wordsOfLabel(label: string): readonly string[] {
  try {
    return label === '' ? [] : wordsIn(label);
  } catch {
    return [];
  }
}

/**
 * A digest of a module, of every file that a string in it names beside it, of what those name, and of the versions of
 * the packages that they import.
 */
function moduleDigest(entry: string): string {
  const parts = new Map<string, string>();
  for (const left = [entry]; left.length > 0; ) {
    const file = left.pop() as string;
    if (parts.has(file)) continue;
    const { size, mtimeMs } = statSync(file);
    const bytes = size > READ_WHOLE ? Buffer.from(`${size} ${mtimeMs}`) : readFileSync(file);
    parts.set(file, sha256(bytes));
    if (!SCRIPT.test(file)) continue;
    const source = bytes.toString('utf8');
    for (const [, , name = ''] of source.matchAll(/(['"`])(\.{1,2}\/[^'"`\n]{1,512})\1/g)) {
      const path = resolve(dirname(file), name);
      const found = ENDINGS.map((ending) => path + ending).find(isFile);
      if (found !== undefined) left.push(found);
    }
    for (const [, , name = ''] of source.matchAll(/\b(?:from|import|require)\b *\(? *(['"])([@\w][^'"\n]{0,256})\1/g)) {
      const from = /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name;
      parts.set(from, versionOf(from, dirname(file)) ?? '');
    }
  }
  const all = [...parts].map(([name, part]) => [relative(dirname(entry), name), part]).sort();
  return sha256(JSON.stringify(all));
}

const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex').slice(0, 16);
const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;
