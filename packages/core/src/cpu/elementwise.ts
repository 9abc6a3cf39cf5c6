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

/** One number for each element of the broadcast shape, of one to three operands; the result has the larger rank. */
export function elementwise(at: string, operands: readonly Operand[], f: (a: number, b: number, c: number) => number): CpuTensor {
  const tensors = operands.filter((x): x is CpuTensor => typeof x !== 'number');
  if (tensors.length === 0) throw new KvError(at, 'expected at least one tensor, got numbers only');
  const rows = commonRows(at, ...tensors);
  const rank = Math.max(...tensors.map((t) => t.shape.length));
  const [slots, channels] = [1, 2].map((axis) => Math.max(...tensors.map((t) => dims(t)[axis]!))) as [number, number];
  // an axis of size 0 anywhere leaves nothing to compute
  const size = [rows, ...[slots, channels].map((n, i) => (tensors.some((t) => dims(t)[i + 1] === 0) ? 0 : n))] as [number, number, number];
  for (const t of tensors) for (const axis of [1, 2]) if (dims(t)[axis] !== 1 && dims(t)[axis] !== size[axis]) throw new KvError(at, `shapes ${tensors.map((x) => `[${x.shape}]`).join(' and ')} do not broadcast`);
  const out = zeros(size.slice(0, rank), 'f32', raggedAs(rows, ...tensors)), { data } = out;
  const [a, b, c] = [0, 1, 2].map((i) => source(operands[i] ?? 0)) as [Source, Source, Source];
  let to = 0;
  for (let r = 0; r < rows; r++) {
    const ar = a.row(r, rows), br = b.row(r, rows), cr = c.row(r, rows);
    for (let j = 0; j < size[1]; j++) {
      let ai = ar + j * a.slot, bi = br + j * b.slot, ci = cr + j * c.slot;
      for (let k = 0; k < size[2]; k++, ai += a.channel, bi += b.channel, ci += c.channel) data[to++] = f(a.data[ai]!, b.data[bi]!, c.data[ci]!);
    }
  }
  return out;
}

interface Source { readonly data: ArrayLike<number>; readonly slot: number; readonly channel: number; row(r: number, rows: number): number }
/** Where an operand's numbers are; a number is an array of one that never steps. */
function source(x: Operand): Source {
  if (typeof x === 'number') return { data: [x], slot: 0, channel: 0, row: () => 0 };
  const { data, offset, stride } = x as CpuTensor, [, slot, channel] = strides(x as CpuTensor);
  return { data, slot, channel, row: (r, rows) => offset + rowOf(x, r, rows) * stride[0]! };
}
