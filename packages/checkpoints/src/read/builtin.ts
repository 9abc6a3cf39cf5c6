import { KvError } from '@kv/core';

interface Builtins {
  'node:fs': typeof import('node:fs');
  'node:fs/promises': typeof import('node:fs/promises');
  'node:os': typeof import('node:os');
  'node:module': typeof import('node:module');
  'node:path': typeof import('node:path');
  'node:url': typeof import('node:url');
  'node:v8': typeof import('node:v8');
  'node:worker_threads': typeof import('node:worker_threads');
}

/**
 * Returns a Node built-in module without an import that a browser or its bundler would have to resolve.
 * @throws KvError outside Node
 */
export function builtin<N extends keyof Builtins>(name: N): Builtins[N] {
  if (typeof process === 'object' && typeof process.getBuiltinModule === 'function')
    return process.getBuiltinModule(name);
  throw new KvError('model', `expected an http(s) URL, since files need Node 20.16 or later (${name})`);
}
