import type { KernelSize } from '@kv/laws';
import { foldedMeans, foldedMoments, recordSize, stretchLogits, stretchValues } from '@kv/transforms-moments';
import { asReference } from './as-reference.ts';
import { gpuTests } from './device.ts';

const gpuTest = await gpuTests();
const numbers = (count: number, by: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i * by));
const D = 2,
  fields = { stretches: 3, cross: 1, spread: 1 },
  size = recordSize(D, fields),
  params = { ...fields, width: 8, scale: 0.5, cap: 3, window: 12 };

/** States with stretches 4 positions wide, keys' covariances of which no eigenvalue is below 0, and slots of which some leave. */
function inputsOf({ rows, slots, lengths }: KernelSize) {
  const s = numbers(rows * (1 + fields.stretches * size), 3),
    m = numbers(rows * fields.stretches * (1 + 2 * D), 5);
  for (let g = 0; g < rows; g++) {
    const at = g * (1 + fields.stretches * size);
    s[at] = 4;
    for (let part = 0; part < fields.stretches; part++) {
      const record = at + 1 + part * size;
      s[record] = part; // the first one is empty
      s.set([2, 0.5, 0.5, 1], record + size - D * D);
      m[(g * fields.stretches + part) * (1 + 2 * D)] = 1 + part;
    }
  }
  return {
    s: { data: s, shape: [rows, s.length / rows] },
    m: { data: m, shape: [rows, m.length / rows] },
    k: { data: numbers(rows * slots * D, 7), shape: [rows, slots, D], lengths },
    v: { data: numbers(rows * slots * D, 11), shape: [rows, slots, D], lengths },
    p: { data: Uint32Array.from({ length: rows * slots }, (_, i) => 2 * (i % slots)), shape: [rows, slots], lengths },
    w: { data: numbers(rows * slots, 2).map((x) => Math.max(0, x)), shape: [rows, slots], lengths },
    q: { data: numbers(2 * rows * 2 * D, 13), shape: [2 * rows, 2, D] },
    at: { data: Uint32Array.of(20, 21), shape: [1, 2] },
    share: { data: numbers(4 * rows * fields.stretches, 17).map(Math.abs), shape: [4 * rows, fields.stretches] },
  };
}
for (const kernel of [foldedMeans, foldedMoments, stretchLogits, stretchValues])
  gpuTest(`the kernel ${kernel.id} as its reference`, (gpu) =>
    asReference(gpu, kernel, (size) => {
      const { at, ...inputs } = inputsOf(size);
      return { inputs: { ...inputs, ...(kernel.id === stretchLogits.id && { p: at }) }, params };
    }),
  );
