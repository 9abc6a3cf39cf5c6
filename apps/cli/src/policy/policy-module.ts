import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isFactory, KvError, PROTOCOL } from '@kv/core';
import { isPiece } from '@kv/core/engine';
import type { AnyFactory } from '@kv/core';
import { lendOwnPackages } from './own-packages.ts';

/** Whether a name is a path rather than the name of a policy or package. */
export const looksLikePath = (name: string): boolean =>
  /^\.{0,2}\/|^file:|\.[cm]?[jt]s$/.test(name) || isAbsolute(name);

/**
 * Imports a module's `policy` as a factory: a declared one, or one that takes any options.
 *
 * @returns undefined for a name that is no path and no package.
 * @throws KvError in one sentence for a module that cannot be imported or exports no `policy`.
 */
export async function policyModule(name: string, cwd: string): Promise<AnyFactory | undefined> {
  const url = moduleUrl(name, cwd);
  if (url === undefined) {
    if (looksLikePath(name)) throw new KvError(name, 'expected a file, got nothing at this path');
    return undefined;
  }
  lendOwnPackages();
  const { policy, ...others } = (await import(/* @vite-ignore */ url).catch((cause: unknown) => {
    const why = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
    throw new KvError(name, `expected a module that can be imported, got ${why}`);
  })) as Readonly<Record<string, unknown>>;
  if (policy === undefined)
    throw new KvError(
      name,
      `expected a module that exports 'policy' (a policy, or a function that makes one), got the exports ${Object.keys(others).join(', ') || '(none)'}`,
    );
  return isFactory(policy) ? policy : undeclared(name, policy);
}

/** Wraps an undeclared `policy` of a module as a factory. */
function undeclared(name: string, policy: unknown): AnyFactory {
  const make = (options?: object): unknown => {
    if (typeof policy !== 'function' && options)
      throw new KvError(name, "expected no options, since 'policy' is a policy and not a function that makes one");
    const made = typeof policy === 'function' ? called(name, policy as (options?: object) => unknown, options) : policy;
    if (isPiece(made)) return made;
    throw new KvError(
      name,
      `expected a piece or policy ({ protocol: ${PROTOCOL}, atoms, … }), got ${made === null ? 'null' : typeof made}`,
    );
  };
  const description = {
    protocol: PROTOCOL,
    name,
    kind: 'method',
    source: name,
    says: '',
    options: {},
    takes: 'nothing',
    signals: [],
  } as const;
  return Object.assign(make, { description });
}
function called(name: string, make: (options?: object) => unknown, options: object | undefined): unknown {
  try {
    return options ? make(options) : make();
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(
      name,
      `expected a policy from these options, got ${cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)}`,
    );
  }
}

/** Returns the `file:` URL of the module of a path or package, if there is one. */
export const moduleUrl = (name: string, cwd: string): string | undefined =>
  looksLikePath(name) ? pathUrl(name, cwd) : packageUrl(name, cwd);

function pathUrl(name: string, cwd: string): string | undefined {
  if (name.startsWith('file:')) return name;
  const path = resolve(cwd, name);
  return existsSync(path) ? pathToFileURL(path).href : undefined;
}

/** Returns the entry of a package, resolved from the working folder or from kv. */
function packageUrl(name: string, cwd: string): string | undefined {
  if (!/^(@[\w.~-]+\/)?[\w.~-]+$/.test(name)) return undefined;
  for (const from of [join(cwd, 'index.js'), import.meta.url]) {
    try {
      const found = createRequire(from).resolve(name);
      if (isAbsolute(found)) return pathToFileURL(found).href;
    } catch {
      // not installed there
    }
  }
  return undefined;
}
