import { KvError } from '@kv/core';
import type { ViewLoop } from '@kv/core';
import { callsOf, type Calls } from './host-calls.ts';
import { ops } from './instructions.ts';
import { loopFunctions } from './kernels.ts';
import type { ThreadPool } from './thread-pool.ts';

/** The loops of views that the threads of a pool have loaded. */
export class LoadedLoops {
  readonly #pool: ThreadPool;
  readonly #calls: Calls;
  /** By their bytes: where their functions lie in the table, 0 for those that a loop has not. */
  readonly #loaded = new Map<string, readonly number[]>();

  constructor(pool: ThreadPool) {
    [this.#pool, this.#calls] = [pool, callsOf(pool)];
  }

  /** Returns where the functions of a loop lie, in the order of `loopFunctions`. @throws KvError if it does not load */
  functions({ bytes }: ViewLoop): readonly number[] {
    if (bytes === undefined) return loopFunctions.map(() => 0);
    const known = this.#loaded.get(bytes);
    if (known) return known;
    const module = moduleOf(bytes),
      { heap, kernels } = this.#pool,
      first = kernels.table.length,
      at = heap.allocate(module.length);
    heap.bytes(at, module.length).set(module);
    this.#calls.run([ops.loop, at, module.length]);
    heap.free(at, module.length);
    const places = loopFunctions.map((_, i) => (kernels.table.get(first + i) === null ? 0 : first + i));
    this.#loaded.set(bytes, places);
    return places;
  }
}

/** Returns the module of a loop. @throws KvError unless it is one over a given memory */
function moduleOf(bytes: string): Uint8Array {
  try {
    const module = Uint8Array.from(atob(bytes), (char) => char.charCodeAt(0)),
      compiled = new WebAssembly.Module(module),
      imports = WebAssembly.Module.imports(compiled).map(({ module, name }) => `${module}.${name}`),
      names = new Set(WebAssembly.Module.exports(compiled).map(({ name }) => name));
    if (imports.some((name) => name !== 'env.memory' && name !== 'env.keys'))
      throw new Error(`it imports ${imports.join(', ')}`);
    if (!loopFunctions.some((name) => names.has(name))) throw new Error(`it exports ${[...names].join(', ')}`);
    return module;
  } catch (cause) {
    throw new KvError(
      'view',
      `expected a loop as a WebAssembly module that imports env.memory, and env.keys if it reads keys, and exports some of ${loopFunctions.join(', ')}: ${cause instanceof Error ? cause.message : String(cause)}`,
    );
  }
}
