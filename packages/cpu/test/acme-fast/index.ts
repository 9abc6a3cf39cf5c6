import { kernel, scorer, keys } from '@kv/core';
import type { WasmMemory } from '@kv/core';

// A third-party package with a fast piece: it depends on @kv/core only, and no package depends on it.

type Halve = (x: Float32Array, out: Float32Array) => void;
/** Calls of the plain loop. */
export const plain = { calls: 0 };
const plainHalve: Halve = (x, out) => {
  plain.calls++;
  for (let i = 0; i < x.length; i++) out[i] = x[i] / 2;
};
interface Module extends WasmMemory {
  count(): number;
  halve(x: number, n: number): void;
}
/** Calls of the WebAssembly, as the module counts them. */
export const wasm: { calls: () => number } = { calls: () => 0 };

/**
 * Built by `asc halves.ts --runtime stub -O3` from
 *
 *     export const base: i32 = <i32>__heap_base;
 *     let calls: i32 = 0;
 *     export function count(): i32 { return calls; }
 *     export function halve(x: usize, n: i32): void {
 *       calls++;
 *       for (const end = x + (<usize>n << 2); x < end; x += 4) store<f32>(x, load<f32>(x) / 2);
 *     }
 */
export const bytes: string =
  'AGFzbQEAAAABDQNgAABgAn9/AGAAAX8DBAMAAQIFAwEAAAYLAn8BQQALfwFBAAsHIQQEYmFzZQMABWNvdW50AAIFaGFsdmUAAQZt' +
  'ZW1vcnkCAAgBAApGAwcAQYAIJAALNwAjAUEBaiQBIAAgAUECdGohAQNAIAAgAUkEQCAAIAAqAgBDAAAAP5Q4AgAgAEEEaiEADAEL' +
  'CwsEACMBCw==';

export const halved = kernel({
  id: 'acme-halved',
  inputs: { x: 'f32' },
  ragged: 'x',
  output: { shape: ({ x }) => x },
  wgsl: 'fn run(index: u32) { output[index] = x[index] / 2.0; }',
  ref({ x }, _, out, _lengths, _products, halve: Halve = plainHalve) {
    halve(x.data, out as Float32Array);
  },
  wasm: {
    bytes,
    loop: (k: Module): Halve => {
      wasm.calls = () => k.count();
      return (x, out) => {
        const [at = 0] = k.place(4 * x.length);
        k.f32().set(x, at / 4);
        k.halve(at, x.length);
        out.set(k.f32().subarray(at / 4, at / 4 + x.length));
      };
    },
  },
});

/** Half of the length of every key. */
export const halfNorm = scorer('halfNorm', { needs: [keys] }, ({ ops, keys: k }) =>
  ops.kernel(halved, { x: ops.norm(k) }),
);
