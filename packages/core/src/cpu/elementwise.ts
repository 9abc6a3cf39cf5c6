import { KvError } from '../errors.ts';
import type { Binary, Operand, Unary } from '../ops.ts';
import { commonRows, dims, raggedAs, rowOf, strides, zeros } from './dense.ts';
import type { CpuTensor } from './dense.ts';

export const UNARY: Readonly<Record<Unary, (x: number) => number>> = { exp: Math.exp, log: Math.log, log1p: Math.log1p, sqrt: Math.sqrt, abs: Math.abs, floor: Math.floor };
export const BINARY: Readonly<Record<Binary, (a: number, b: number) => number>> = {
  add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, div: (a, b) => a / b,
  max: (a, b) => (a > b ? a : b), min: (a, b) => (a < b ? a : b),
  less: (a, b) => (a < b ? 1 : 0), atLeast: (a, b) => (a >= b ? 1 : 0), equal: (a, b) => (a === b ? 1 : 0),
};

/** One number for each element of the broadcast shape; the result has the larger rank. */
export function elementwise(at: string, operands: readonly Operand[], f: (...x: number[]) => number): CpuTensor {
  const tensors = operands.filter((x): x is CpuTensor => typeof x !== 'number');
  if (tensors.length === 0) throw new KvError(at, 'expected at least one tensor, got numbers only');
  const rows = commonRows(at, ...tensors);
  const rank = Math.max(...tensors.map((t) => t.shape.length));
  const size = [rows, 1, 1].map((r, axis) => (axis === 0 ? r : Math.max(...tensors.map((t) => dims(t)[axis]!))));
  for (const t of tensors) for (const axis of [1, 2]) if (dims(t)[axis] !== 1 && dims(t)[axis] !== size[axis]) throw new KvError(at, `shapes ${tensors.map((x) => `[${x.shape}]`).join(' and ')} do not broadcast`);
  const out = zeros(size.slice(0, rank), 'f32', raggedAs(rows, ...tensors));
  const steps = operands.map((x) => (typeof x === 'number' ? ([0, 0, 0] as const) : strides(x as CpuTensor)));
  const args = new Array<number>(operands.length).fill(0);
  const starts = new Array<number>(operands.length).fill(0);
  let to = 0;
  for (let r = 0; r < rows; r++) {
    for (const [i, x] of operands.entries()) if (typeof x !== 'number') starts[i] = (x as CpuTensor).offset + rowOf(x, r, rows) * (x as CpuTensor).stride[0]!;
    for (let j = 0; j < size[1]!; j++) for (let k = 0; k < size[2]!; k++) {
      for (let i = 0; i < operands.length; i++) {
        const x = operands[i]!;
        args[i] = typeof x === 'number' ? x : (x as CpuTensor).data[starts[i]! + j * steps[i]![1] + k * steps[i]![2]]!;
      }
      out.data[to++] = f(...args);
    }
  }
  return out;
}
