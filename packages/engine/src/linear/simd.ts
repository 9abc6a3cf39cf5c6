import { denseRows, type Matrix } from '@kv/checkpoints';
import { createKernel, growTo, type Kernel } from '../simd/kernel.ts';
import type { LinearFactory } from './linear.ts';

/** Rows of a weight decoded and packed at a time, a multiple of a panel's 8, so that a weight is never there twice. */
const packRows = 512;

/** Rows multiplied at a time, so that the room for x and y stays small. */
const block = 64;

/**
 * Products on this package's WebAssembly SIMD kernel, accumulating in f32. Weights are packed once into the memory that
 * all products of the
 * factory share; it is given back when the last of them is destroyed. @throws KvError when 4 GiB are not enough.
 */
export function simdLinear(): LinearFactory {
  let arena: Arena | undefined;
  let users = 0;
  return (weight) => {
    const { inputs, outputs } = weight;
    const own = (arena ??= createArena());
    users++;
    const wide = 8 * Math.ceil(outputs / 8);
    const deep = 4 * Math.ceil(inputs / 4);
    const packed = own.place(weight, deep);
    let alive = true;
    return {
      inputs,
      outputs,
      rowwise: true,
      apply(x, rows) {
        const y = new Float32Array(rows * outputs);
        for (let r = 0; r < rows; r += block) {
          const m = Math.min(block, rows - r);
          const view = own.multiply(x.subarray(r * inputs, (r + m) * inputs), m, wide, inputs, packed, deep);
          if (wide === outputs) y.set(view, r * outputs);
          else for (let i = 0; i < m; i++) y.set(view.subarray(i * wide, i * wide + outputs), (r + i) * outputs);
        }
        return y;
      },
      destroy() {
        if (alive && --users === 0) arena = undefined;
        alive = false;
      },
    };
  };
}

interface Arena {
  /** Packs a weight into panels `[ceil(outputs / 8), deep, 8]` and returns its byte offset. */
  place(weight: Matrix, deep: number): number;
  /** x `[m, inputs]` times a packed weight: a view `[m, wide]`, valid until the next call. */
  multiply(x: Float32Array, m: number, wide: number, inputs: number, packed: number, deep: number): Float32Array;
}

function createArena(): Arena {
  const kernel: Kernel = createKernel();
  const start = align(kernel.memory.buffer.byteLength);
  let end = start;
  let scratch = { at: start, bytes: 0 };
  const room = (bytes: number): number => {
    const at = end;
    end = align(end + bytes);
    growTo(kernel.memory, end);
    return at;
  };
  const floats = (): Float32Array => new Float32Array(kernel.memory.buffer);
  return {
    place(weight, deep) {
      const { outputs, inputs } = weight;
      const packed = room(4 * 8 * Math.ceil(outputs / 8) * deep);
      const raw = end;
      growTo(kernel.memory, raw + 4 * Math.min(outputs, packRows) * deep);
      const memory = floats();
      for (let from = 0; from < outputs; from += packRows) {
        const count = Math.min(packRows, outputs - from);
        const rows = denseRows(weight, from, count);
        if (deep === inputs) memory.set(rows, raw / 4);
        else {
          memory.fill(0, raw / 4, raw / 4 + count * deep);
          for (let o = 0; o < count; o++) memory.set(rows.subarray(o * inputs, (o + 1) * inputs), raw / 4 + o * deep);
        }
        kernel.pack(raw, count, deep, packed + 4 * from * deep);
      }
      return packed;
    },
    multiply(x, m, wide, inputs, packed, deep) {
      const bytes = 4 * block * (inputs + wide);
      if (scratch.bytes < bytes) scratch = { at: room(bytes), bytes };
      const memory = floats();
      // Four rows take the time of three: the last three of a block get one beside them that nobody reads.
      const rows = m % 4 === 3 ? m + 1 : m;
      const y = scratch.at + 4 * rows * inputs;
      memory.set(x, scratch.at / 4);
      memory.fill(0, scratch.at / 4 + m * inputs, y / 4);
      kernel.gemm(rows, wide, inputs, scratch.at, 4 * inputs, packed, 32, 32 * deep, y, 4 * wide, 1);
      return memory.subarray(y / 4, y / 4 + m * wide);
    },
  };
}

function align(bytes: number): number {
  return 64 * Math.ceil(bytes / 64);
}
