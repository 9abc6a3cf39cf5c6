import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { KvError } from '@kv/core';

/** A path rather than the name of a policy or package. */
export const looksLikePath = (name: string): boolean =>
  /^\.{0,2}\/|^file:|\.[cm]?[jt]s$/.test(name) || isAbsolute(name);

/**
 * What a module exports as `policy`; `undefined` for an `optional` package that is not installed.
 * @throws KvError in one sentence for a module that cannot be imported or exports no `policy`
 */
export async function importPolicyModule(name: string, cwd: string, optional = false): Promise<unknown> {
  const url = looksLikePath(name) ? pathUrl(name, cwd) : packageUrl(name, cwd);
  if (url === undefined) {
    if (optional) return undefined;
    throw new KvError(name, 'expected a file, got nothing at this path');
  }
  const module = (await import(/* @vite-ignore */ url).catch((cause: unknown) => {
    throw new KvError(
      name,
      `expected a module that can be imported, got ${cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)}`,
    );
  })) as Readonly<Record<string, unknown>>;
  if (module.policy !== undefined) return module.policy;
  throw new KvError(
    name,
    `expected a module that exports 'policy' (a policy, or a function that makes one), got the exports ${Object.keys(module).join(', ') || '(none)'}`,
  );
}

function pathUrl(name: string, cwd: string): string | undefined {
  if (name.startsWith('file:')) return name;
  const path = resolve(cwd, name);
  return existsSync(path) ? pathToFileURL(path).href : undefined;
}

/** The entry of a package as the working folder sees it, or as kv does. */
function packageUrl(name: string, cwd: string): string | undefined {
  if (!/^(@[\w.~-]+\/)?[\w.~-]+$/.test(name)) return undefined;
  for (const from of [join(cwd, 'index.js'), import.meta.url]) {
    try {
      const found = createRequire(from).resolve(name);
      if (isAbsolute(found)) return pathToFileURL(found).href;
    } catch {}
  }
  return undefined;
}
