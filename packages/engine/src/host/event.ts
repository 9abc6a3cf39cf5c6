import { isState, recordEvent, readDecisions } from '@kv/core/engine';
import type { AnySignal, LayerContext, Backend, BudgetPlan, State } from '@kv/core';
import type { EventLayer, ReplacementCache } from '@kv/core/engine';
import type { ActivePolicy, EventResult, EventTimes } from '../memory/active-policy.ts';
import { expectLevels, levelsIn } from '../cache/form.ts';
import type { LayerCache } from '../cache/layer-cache.ts';
import { levelOf } from '../cache/records.ts';
import type { CachePart } from '../cache/cache-rows.ts';
import type { LayerMemory } from './layer.ts';
import type { EventSignals } from './provide.ts';
import type { StateStore } from './store.ts';
import { inTurns } from '../yield-to-events.ts';

/** One layer that an event is about. */
export interface HostEventLayer {
  readonly at: LayerContext;
  readonly memory: LayerMemory;
  readonly read: (signal: AnySignal) => unknown;
}

/** The context that an event runs in. */
interface Stage {
  readonly backend: Backend;
  readonly shared: StateStore;
  readonly common: EventSignals;
  readonly room: number;
  readonly times: EventTimes;
  /** Runs a change that must complete. */
  change<T>(run: () => Promise<T>): Promise<T>;
}

/**
 * Runs one event over these layers: records every step, reads once, then compacts. Nothing changes before the read has
 * passed every check.
 *
 * @param room slots per head that will be wanted soon; storage keeps that much free
 */
export async function runHostEvent(
  { policy, attends }: ActivePolicy,
  subjects: readonly HostEventLayer[],
  plan: BudgetPlan,
  { backend, shared, common, room, times, change }: Stage,
): Promise<EventResult> {
  const layers: EventLayer[] = subjects.map(({ at, read }) => ({
    at,
    read,
    stepCache: common.stepCache,
    budgets: plan.budgets[at.layer],
    above: plan.above,
  }));
  const replaced = await inTurns(recordEvent(policy, layers, backend.ops, attends), (ms) => {
    times.score += ms;
  });
  const { drafts } = replaced;
  const scored = performance.now();
  const settled = await readDecisions(backend, layers, drafts);
  if ('error' in replaced) throw replaced.error;
  if (settled.levels)
    expectLevels(
      policy.label,
      levelsIn(settled.levels),
      subjects.map(({ memory }) => memory.cache.headDim),
    );
  const read = performance.now();
  await change(async () => {
    for (const [i, subject] of subjects.entries()) {
      await replace(replaced.made[i], subject.memory, backend);
      await writeState(policy.needs, drafts[i].state, subject.memory.states, shared, backend);
      const biases = await givenBiases(replaced.made[i], settled.kept[i], backend);
      subject.memory.keep(settled.kept[i], room, settled.levels?.[i]);
      if (biases) subject.memory.cache.setBiases(biases);
    }
    if (drafts.some(({ state }) => state.size > 0)) common.states.clear();
  });
  times.settle += read - scored;
  times.compact += performance.now() - read;
  return {
    budgets: settled.budgets,
    kept: subjects.map(({ memory }) => keptPositions(memory)),
    ...(settled.levels && { levels: subjects.map(({ memory: { cache } }) => levelsOf(cache)) }),
    ...(settled.units && { units: settled.units }),
    notes: settled.notes,
  };
}

export const numbersOf = (heads: readonly Uint32Array[]): number[][] => heads.map((positions) => Array.from(positions));

/** Returns the positions in the cache, `[kvHead][slot]`. */
export function keptPositions({ cache: { positions, capacity, lengths, heads } }: LayerMemory): Uint32Array[] {
  return Array.from({ length: heads }, (_, g) => positions.slice(g * capacity, g * capacity + lengths[g]));
}

/** Returns the levels of the slots in a cache, `[kvHead][slot]`. */
const levelsOf = (cache: LayerCache): readonly Uint8Array[] =>
  cache.levels() ?? Array.from(cache.lengths, (n) => new Uint8Array(n).fill(levelOf(cache.form)));

/**
 * Stores new state of an event, a step or a view.
 * @param rows the query heads that a view has, if they are not all that read the layer's slots
 */
export async function writeState(
  needs: readonly AnySignal[],
  state: ReadonlyMap<string, Parameters<Backend['read']>[0][number]>,
  own: StateStore,
  shared: StateStore,
  backend: Backend,
  rows?: Uint32Array,
): Promise<void> {
  if (state.size === 0) return;
  const entries = [...state];
  const values = await backend.read(entries.map(([, tensor]) => tensor));
  for (const [i, [id]] of entries.entries()) {
    // the boundary lets only declared states through
    const signal = needs.find((s): s is State => isState(s) && s.id === id)!;
    (signal.state.rows === 'model' ? shared : own).write(signal, values[i], rows);
  }
}

/** Stores the rows `[n, d]` of a KV head that differ from those it has: no other is rounded once more. */
function writeChanged(cache: LayerCache, part: CachePart, g: number, rows: Float32Array): void {
  const { headDim: d } = cache,
    before = cache.read(part, g);
  for (let at = 0; at < rows.length; at += d) {
    let i = at;
    while (i < at + d && rows[i] === before[i]) i++;
    if (i < at + d) cache.write(part, g, at / d, rows.subarray(at, at + d));
  }
}

/** Returns the biases of the kept slots that hooks give, `[kvHead][slot]`, if they give any. */
async function givenBiases(
  made: readonly ReplacementCache[],
  kept: readonly Uint32Array[],
  backend: Backend,
): Promise<Float32Array[] | undefined> {
  const last = made.findLast(({ biases }) => biases)?.biases;
  if (!last) return undefined;
  const {
    data,
    shape: [, slots = 0],
  } = (await backend.read([last]))[0];
  return kept.map((list, g) => Float32Array.from(list, (slot) => data[g * slots + slot]));
}

/** Replaces keys and values in the cache. */
async function replace(made: readonly ReplacementCache[], { cache }: LayerMemory, backend: Backend): Promise<void> {
  for (const { keys, values } of made)
    for (const [tensor, part] of [
      [keys, 'keys'],
      [values, 'values'],
    ] as const) {
      if (!tensor) continue;
      const {
        data,
        shape: [heads = 0, slots = 0, dim = 0],
      } = (await backend.read([tensor]))[0];
      cache.roundAgain(part);
      for (let g = 0; g < heads; g++)
        writeChanged(
          cache,
          part,
          g,
          data.subarray(g * slots * dim, g * slots * dim + cache.lengths[g] * dim) as Float32Array,
        );
    }
}
