import { KvError } from '@kv/core';

/**
 * Returns a Node built-in module without an import that a browser or its bundler would have to resolve. Its type is given
 * by the caller, `builtin<typeof import('node:fs')>('node:fs')`: declarations then name no types of Node, which a page
 * does not have.
 * @throws KvError outside Node
 */
export function builtin<M>(name: `node:${string}`): M {
  if (typeof process === 'object' && typeof process.getBuiltinModule === 'function')
    return process.getBuiltinModule(name) as M;
  throw new KvError('model', `expected an http(s) URL, since files need Node 20.16 or later (${name})`);
}
