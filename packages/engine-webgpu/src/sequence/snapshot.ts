import type { Tensor } from '@kv/core';
import type { CacheSnapshot, LayerSnapshot, Rows, StoredState } from '@kv/engine';
import type { DeviceCache } from './cache.ts';
import type { DeviceState } from './device-state.ts';
import { settleSums } from './signals.ts';
import type { DeviceStates } from './states.ts';

/** Reads all that a sequence on the device holds to the host, in one read. */
export async function snapshot(caches: DeviceState): Promise<CacheSnapshot> {
  const scope = caches.open(),
    { commands } = scope,
    { layers, shared, context } = caches,
    { config } = context.model;
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
      const { cache, ring, accumulated, block, aligned } = layer,
        [keys, values] = [numbers(cache.keys), numbers(cache.values)],
        queries = ring && numbers(ring.queries),
        own = states(layer.states);
      const [all, newest] = [accumulated, block].map((rows) => rows && numbers(rows.dense(commands, cache.length)));
      return () => ({
        lengths: cache.counts,
        aligned,
        ring: ring?.saved(queries!()), // read where there is a ring
        // `all` is of it
        accumulated: all && { rows: accumulated!.rows === config.queryHeads ? 'query' : 'kv', sums: all() },
        block: newest?.(),
        states: own(),
        slots: {
          form: 'f32',
          keys: rowsOf(packed(keys(), cache)),
          values: rowsOf(packed(values(), cache)),
          positions: Uint32Array.from(cache.kept().flat()),
          ...(cache.rebased && { rotations: Uint32Array.from(cache.rotations().flat()) }),
        },
      });
    });
    const shares = states(shared),
      read = await scope.read(wanted);
    return { layers: parts.map((layer) => layer()), states: shares() };
  } finally {
    scope.end();
  }
}

/** Returns numbers as rows of f32. */
const rowsOf = ({ buffer, byteOffset, byteLength }: Float32Array): Rows => ({
  form: 'f32',
  codes: new Uint8Array(buffer, byteOffset, byteLength),
  scales: new Uint8Array(0),
});

/** Returns the slots in use of `[G, capacity, d]`, head after head. */
function packed(data: Float32Array, { counts, capacity, headDim: d }: DeviceCache): Float32Array {
  const out = new Float32Array(d * counts.reduce((a, b) => a + b, 0));
  let at = 0;
  for (const [g, n] of counts.entries()) {
    out.set(data.subarray(g * capacity * d, (g * capacity + n) * d), at);
    at += n * d;
  }
  return out;
}
