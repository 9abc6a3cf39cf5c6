import { compile, cpu, isState, KvError, union } from '@kv/core';
import type { Backend, Compiled, Policy } from '@kv/core';
import { fileSource } from '../checkpoint/source.ts';
import { slotsOf, type Budget } from '../host/budget.ts';
import { LayerMemory } from '../host/layer.ts';
import type { Memory } from '../host/memory.ts';
import { memoryOf, Sequence } from '../host/sequence.ts';
import type { StateStore } from '../host/store.ts';
import { notRemembered, watchOf } from '../host/watch.ts';
import type { Model } from '../load-model.ts';
import { checkCounts, checkNumbers } from './checks.ts';
import { readSaved, type SavedArrays } from './file.ts';
import type { Manifest, SavedState } from './manifest.ts';

export interface LoadCacheOptions {
  /** What goes on to evict the sequence, or a function that finds it by the label of the policy that it had. @defaultValue nothing is evicted any more */
  readonly policy?: Policy | ((label: string) => Policy | Promise<Policy>) | undefined;
  /** @defaultValue the budget that the sequence had */
  readonly budget?: Budget | undefined;
  /** Where pieces run. @defaultValue the CPU */
  readonly backend?: Backend;
  /** As for a `Sequence`. */
  readonly window?: number;
}

/**
 * A sequence from the bytes of `saveCache`, or from a file of them.
 * @throws KvError in one sentence for another model's cache, a policy that reads what was not remembered, and whatever the bytes get wrong.
 */
export async function loadCache(model: Model, from: Uint8Array | string, { policy, budget, backend = cpu, window }: LoadCacheOptions = {}): Promise<Sequence> {
  const where = typeof from === 'string' ? from : 'saved cache', { config, fingerprint, name } = model;
  const { manifest, arrays } = readSaved(typeof from === 'string' ? await readFile(from) : from, where, (given) => {
    if (given.model !== fingerprint) throw new KvError(where, `expected a cache of ${name} (fingerprint ${fingerprint.slice(0, 12)}), got one of another model (${given.model.slice(0, 12)})`);
    checkCounts(given, config, where);
    return config;
  });
  checkNumbers(manifest, arrays, config, where);
  const sequence = new Sequence(model, backend, window === undefined ? {} : { window }), memory = memoryOf(sequence);
  try {
    restore(memory, manifest, arrays);
    sequence.logits = Array.from({ length: manifest.logits }, (_, i) => (arrays.get('logits') as Float32Array).slice(i * config.vocab, (i + 1) * config.vocab));
    if (manifest.layers.every(({ event }) => event !== null)) {
      sequence.lastBudgets = manifest.layers.map(({ event }) => event!.budgets);
      sequence.lastKept = manifest.layers.map(({ event }, l) => split(arrays.get(`layers.${l}.kept`)!, event!.kept));
    }
    if (policy) sequence.policy = remembered(memory, compile(typeof policy === 'function' ? await policy(manifest.policy) : policy), manifest);
    if (budget !== undefined) memory.budget = slotsOf(budget, memory.length);
    return sequence;
  } catch (error) {
    sequence.destroy();
    throw error;
  }
}

function restore(memory: Memory, manifest: Manifest, arrays: SavedArrays): void {
  const { config } = memory.model, floats = (name: string): Float32Array => arrays.get(name) as Float32Array, whole = (name: string): Uint32Array => arrays.get(name) as Uint32Array;
  const states = (store: StateStore, list: readonly SavedState[], at: string): void => list.forEach((state, i) => store.restore({ ...state, data: floats(`${at}states.${i}`) }));
  for (const id of whole('tokens')) memory.text.push(id);
  memory.layers = manifest.layers.map(({ lengths, aligned, ring, accumulated, block, states: own }, l) => {
    const at = `layers.${l}.`, layer = new LayerMemory(config, memory.ledger);
    layer.cache.restore(lengths, { keys: floats(`${at}keys`), values: floats(`${at}values`), positions: whole(`${at}positions`), rotations: whole(`${at}rotations`) });
    layer.watch({ window: ring?.window ?? 0, accumulated, block }, config, memory.ledger);
    if (ring) layer.ring!.restore({ seen: ring.seen, queries: floats(`${at}ring.queries`), positions: whole(`${at}ring.positions`), rotations: whole(`${at}ring.rotations`) });
    for (const [rows, name] of [[layer.accumulated, 'accumulated'], [layer.block, 'block']] as const) {
      rows?.grow(layer.cache.length);
      rows?.write(floats(at + name), layer.cache.length);
    }
    states(layer.states, own, at);
    layer.aligned = aligned;
    return layer;
  });
  states(memory.shared, manifest.states, '');
  const { promptLength, rotaryLength, decoded, mostSlots, shift, budget } = manifest;
  Object.assign(memory, { promptLength, rotaryLength, decoded, mostSlots, shift: shift ?? 0, budget: budget ?? undefined });
}

/** The policy, if all that it reads of the past is there. */
function remembered(memory: Memory, policy: Compiled, manifest: Manifest): Compiled {
  const saved = new Map([...manifest.states, ...manifest.layers.flatMap(({ states }) => states)].map(({ id, spec }) => [id, spec]));
  for (const signal of union(policy.needs, ...[...policy.hooks('view'), ...policy.hooks('step')].map(({ needs }) => needs))) {
    const spec = isState(signal) ? saved.get(signal.id) : undefined;
    const other = isState(signal) && spec !== undefined && (spec.kind !== signal.state.kind || spec.rows !== signal.state.rows);
    if (other || !memory.layers.every((layer) => layer.remembers(watchOf([signal])))) throw notRemembered(signal);
  }
  return policy;
}

function split(all: ArrayLike<number>, lengths: readonly number[]): number[][] {
  let at = 0;
  return lengths.map((n) => Array.from({ length: n }, () => all[at++]!));
}

async function readFile(path: string): Promise<Uint8Array> {
  const source = await fileSource(path);
  try {
    return await source.read(0, source.size);
  } finally {
    await source.close();
  }
}
