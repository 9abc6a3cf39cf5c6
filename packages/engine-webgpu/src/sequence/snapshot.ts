import type { Tensor } from '@kv/core';
import { slotModel } from '@kv/engine';
import type { CacheSnapshot, LayerSnapshot, StoredState } from '@kv/engine';
import type { DeviceState } from './device-state.ts';
import { settleSums } from './signals.ts';
import type { DeviceStates } from './states.ts';

/** Reads all that a sequence on the device holds to the host, in one read. */
export async function snapshot(caches: DeviceState): Promise<CacheSnapshot> {
  const scope = caches.open(),
    { commands } = scope,
    { layers, states: carried, shared, context } = caches,
    config = slotModel(context.model.config);
  try {
    const wanted: Tensor[] = [],
      numbers = (x: Tensor): (() => Float32Array) => {
        const at = wanted.push(x) - 1;
        return () => read[at].data as Float32Array;
      };
    const states = (of: DeviceStates): (() => readonly StoredState[]) => {
      const all = of.saved(commands).map(({ tensor, ...state }) => ({ state, data: numbers(tensor) }));
      return () => all.map(({ state, data }) => ({ ...state, data: data() }));
    };
    const parts = layers.map((layer, index): (() => LayerSnapshot) => {
      settleSums({ layer, config, index, commands });
      const { cache, ring, accumulated, block, biases, aligned, heads } = layer,
        slots = cache.saved(numbers),
        queries = ring && numbers(ring.queries(commands)),
        own = states(layer.states);
      const [all, newest, biased] = [accumulated, block, biases].map(
        (rows) => rows && numbers(rows.dense(commands, cache.length)),
      );
      return () => ({
        lengths: cache.counts,
        aligned,
        ring: ring?.saved(queries!()), // read where there is a ring
        // `all` is of it
        accumulated: all && { rows: accumulated!.rows === heads.queryHeads ? 'query' : 'kv', sums: all() },
        block: newest?.(),
        states: own(),
        slots: { ...slots(), ...(biased && { biases: inUse(biased(), cache.counts) }) },
      });
    });
    const shares = states(shared),
      own = carried.all.map(numbers),
      read = await scope.read(wanted);
    return { layers: parts.map((layer) => layer()), carried: own.map((state) => state()), states: shares() };
  } finally {
    scope.end();
  }
}

/** Returns the first numbers of each row, `counts[g]` of row g, one row after the other. */
function inUse(rows: Float32Array, counts: readonly number[]): Float32Array {
  const stride = rows.length / counts.length;
  return Float32Array.from(counts.flatMap((n, g) => [...rows.subarray(g * stride, g * stride + n)]));
}
