import { advanceOn, KvError, retainOn } from '@kv/core';
import { cpu } from '@kv/cpu';
import { planBudgets } from '@kv/core/engine';
import type { Backend, Cache, CacheLayer, HostArray, Policy, Rope } from '@kv/core';
import type { Tensor } from '@huggingface/transformers';
import type { PolicyNeeds } from './demands.ts';
import type { SessionCache, SessionQueryRing, Record } from './record.ts';
import { rotator } from './rope.ts';
import type { SessionShape } from './shape.ts';
import { floats, gatherSlots, onHost } from './tensors.ts';

/** Everything that an event needs apart from the record. */
export interface EventPlan {
  readonly policy: Policy;
  readonly demands: PolicyNeeds;
  readonly shape: SessionShape;
  readonly rope: Rope | undefined;
  readonly backend: Backend | undefined;
}

/** Converts a record to the cache that core's `retain` reads. */
function cacheOf(record: Record, { demands: { compiled }, shape, rope }: EventPlan): Cache {
  const { queryHeads, kvHeads, headDim: d } = shape,
    reads = (id: string): boolean =>
      [...compiled.needs, ...compiled.hooks('step').flatMap(({ needs }) => needs)].some((need) => need.id === id),
    attends = record.layers[0].queries !== undefined;
  const layer = ({ key, value, positions, queries }: SessionCache): CacheLayer => {
    const shaped = (tensor: Tensor): HostArray => ({ data: floats(tensor), shape: [kvHeads, record.slots, d] });
    return {
      positions: { data: flat(positions, record.slots), shape: [kvHeads, record.slots] },
      ...((attends || reads('keys')) && { keys: shaped(key) }),
      ...(reads('values') && { values: shaped(value) }),
      ...(queries && { queries: { data: queries.data, shape: [queryHeads, queries.count, d] } }),
      ...(rope && { signals: { rope } }),
    };
  };
  return {
    layers: record.layers.map(layer),
    queryHeads,
    length: record.ids.length,
    promptLength: record.promptLength,
    step: record.step,
    ...(record.text && { tokens: record.text }),
    state: record.state,
  };
}

function flat(rows: readonly Uint32Array[], n: number): Uint32Array {
  const out = new Uint32Array(rows.length * n);
  for (const [g, row] of rows.entries()) out.set(row, g * n);
  return out;
}

/** Returns the record after the policy's step hooks. */
export async function afterStep(record: Record, plan: EventPlan): Promise<Record> {
  if (plan.demands.compiled.hooks('step').length === 0) return record;
  const state = await advanceOn(backendOf(plan), plan.policy, cacheOf(await hosted(record), plan));
  return { ...record, state };
}

const backendOf = ({ backend = cpu }: EventPlan): Backend => backend;

async function hosted(record: Record): Promise<Record> {
  const layers = record.layers.map(async (layer) => ({
    ...layer,
    key: await onHost(layer.key),
    value: await onHost(layer.value),
  }));
  return { ...record, layers: await Promise.all(layers) };
}

/** Returns the record after an event: only the kept slots, equally many in every head. */
export async function afterEvent(before: Record, plan: EventPlan): Promise<Record> {
  const { layers, kvHeads } = plan.shape,
    { compiled } = plan.demands,
    lengths = Array.from({ length: layers }, () => new Array<number>(kvHeads).fill(before.slots));
  if (
    planBudgets(compiled, before.budget, lengths)
      .budgets.flat()
      .every((b) => b >= before.slots)
  )
    return before;
  const record = await hosted(before),
    { slots, stateOf, notes } = await retainOn(backendOf(plan), plan.policy, cacheOf(record, plan), {
      budget: before.budget,
    });
  const kept = filled(slots, record.layers),
    [first] = kept.sets[0];
  const compact = (layer: SessionCache, l: number): SessionCache => {
    const sets = kept.sets[l],
      positions = sets.map((set, g) => set.map((slot) => layer.positions[g][slot])),
      moved = { key: gatherSlots(layer.key, sets), value: gatherSlots(layer.value, sets), positions };
    return together({ ...moved, ...(layer.queries && { queries: layer.queries }) }, sets, plan);
  };
  const compacted = record.layers.map(compact);
  return {
    ...record,
    layers: compacted,
    slots: first.length,
    state: stateOf(kept.sets),
    events: record.events + 1,
    kept: compacted.map(({ positions }) => positions),
    notes: [...new Set([...record.notes, ...notes, ...kept.notes])],
  };
}

/** Pads the kept sets to one size: a head that keeps fewer slots also keeps the newest of those that it dropped. */
function filled(
  slots: readonly (readonly Uint32Array[])[],
  layers: readonly SessionCache[],
): { readonly sets: readonly (readonly Uint32Array[])[]; readonly notes: readonly string[] } {
  const longest = Math.max(...slots.flat().map(({ length }) => length));
  if (longest === 0) throw new KvError('withPolicy', 'expected a policy that keeps a slot at least, got none kept');
  if (slots.flat().every(({ length }) => length === longest)) return { sets: slots, notes: [] };
  const fill = (set: Uint32Array, n: number): Uint32Array => {
    const out = new Set(set);
    for (let slot = n - 1; out.size < longest; slot--) out.add(slot);
    return Uint32Array.from(out).sort();
  };
  return {
    sets: slots.map((sets, l) => sets.map((set, g) => fill(set, layers[l].positions[g].length))),
    notes: ['heads with fewer kept slots than the longest keep the newest dropped ones too: here all have as many'],
  };
}

/**
 * If the graph counts positions by the mask, rotates kept keys to positions 0, 1, ..., and queries to that of the last
 * slot that they see.
 */
function together(layer: SessionCache, sets: readonly Uint32Array[], { shape, rope }: EventPlan): SessionCache {
  if (!shape.fromMask || !rope) return layer;
  const { headDim: d, kvHeads: G, queryHeads: H } = shape,
    turn = rotator(rope),
    { key, queries } = layer,
    n = sets[0].length,
    data = key.data as Float32Array;
  for (const [g, set] of sets.entries()) for (const [to, from] of set.entries()) turn(data, (g * n + to) * d, from, to);
  if (!queries) return layer;
  const moved: SessionQueryRing = { ...queries, data: queries.data.slice(), rotations: queries.rotations.slice() };
  for (let h = 0; h < H; h++) {
    const set = sets[Math.floor((h * G) / H)];
    for (let i = 0; i < queries.count; i++) {
      const at = h * queries.count + i,
        from = queries.rotations[at],
        seen = set.findLastIndex((slot) => slot <= from),
        to = Math.max(0, seen);
      turn(moved.data, at * d, from, to);
      moved.rotations[at] = to;
    }
  }
  return { ...layer, queries: moved };
}
