import { KvError } from '@kv/core';
import { floatRows, toFloat32, type TensorType } from './tensor-types.ts';

/** Consecutive rows of a weight, as the checkpoint stores them. */
export interface MatrixPart {
  /** Type of the stored numbers. */
  readonly type: TensorType;
  /** Number of rows. */
  readonly rows: number;
  /** The rows as stored, one after another. */
  readonly bytes: Uint8Array;
  /** Reads them a few at a time, in order; present in `Weights.byRows`, whose parts have no `bytes`. */
  readonly read?: RowsRead;
  /** Rows that are read together: reads begin and end at multiples of it. @defaultValue 1 */
  readonly unit?: number;
}

/**
 * A weight `[outputs, inputs]` as row blocks stacked vertically, each in the checkpoint's own type, so that an engine
 * can use quantised blocks as they are.
 */
export interface Matrix {
  readonly outputs: number;
  readonly inputs: number;
  readonly parts: readonly MatrixPart[];
}

/**
 * Reads rows `from` to `from + count` of a weight as stored. They may come in `into`, which has as many bytes.
 * @throws KvError for a number that is not finite
 */
export type RowsRead = (from: number, count: number, into?: Uint8Array) => Promise<Uint8Array>;

/**
 * Returns rows that stay in their file until they are read. Their `bytes` throw, since code that takes them whole must
 * ask for weights that are read whole.
 */
export const unreadRows = (type: TensorType, rows: number, read: RowsRead, unit = 1): MatrixPart => ({
  type,
  rows,
  read,
  unit,
  get bytes(): never {
    throw new TypeError('expected rows that were read whole, got rows to be read a few at a time');
  },
});

/**
 * Wraps f32 numbers, `[outputs, inputs]` row-major, as a matrix; the numbers are not copied.
 * @param values `outputs * inputs` numbers
 */
export function matrixOf(values: Float32Array, outputs: number, inputs: number): Matrix {
  return {
    outputs,
    inputs,
    parts: [{ type: 'F32', rows: outputs, bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) }],
  };
}

/**
 * Returns the matrix as f32, `[outputs, inputs]` row-major. A matrix of one f32 part may be returned without a copy.
 */
export function dense({ outputs, inputs, parts }: Matrix): Float32Array {
  if (parts.length === 1) return toFloat32(parts[0].type, parts[0].bytes);
  const out = new Float32Array(outputs * inputs);
  let at = 0;
  for (const { type, bytes, rows } of parts) {
    toFloat32(type, bytes, out.subarray(at, at + rows * inputs));
    at += rows * inputs;
  }
  return out;
}

/** Stacks matrices with the same inputs vertically; nothing is copied. */
export function stack(matrices: readonly Matrix[]): Matrix {
  return {
    outputs: matrices.reduce((n, { outputs }) => n + outputs, 0),
    inputs: matrices[0]?.inputs ?? 0,
    parts: matrices.flatMap(({ parts }) => parts),
  };
}

/** Returns the matrix with its own bytes: parts that are views of a larger buffer, such as a whole file, are copied. */
export function ownBytes({ parts, ...shape }: Matrix): Matrix {
  return {
    ...shape,
    parts: parts.map(({ bytes, ...part }) => ({
      ...part,
      bytes: bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice(),
    })),
  };
}

/** Returns rows `from` to `from + count` as f32, `[count, inputs]`. @throws KvError for rows outside the matrix */
export function denseRows({ inputs, outputs, parts }: Matrix, from: number, count: number): Float32Array {
  if (!(from >= 0 && count >= 0 && from + count <= outputs))
    throw new KvError('denseRows', `expected rows below ${outputs}, got ${count} from ${from}`);
  const pieces: Float32Array[] = [];
  let first = 0;
  for (const { type, rows, bytes } of parts) {
    const low = Math.max(from, first),
      high = Math.min(from + count, first + rows);
    if (low < high) pieces.push(floatRows(type, bytes, inputs, low - first, high - low));
    first += rows;
  }
  if (pieces.length === 1) return pieces[0];
  const out = new Float32Array(count * inputs);
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}

/** Puts stored rows in another order. */
export interface Reordering {
  (matrix: Matrix): Matrix;
  /** Puts rows of `size` bytes in order, in place, where rows stay within runs of `unit` rows. */
  readonly runs?: { readonly unit: number; order(bytes: Uint8Array, size: number): void };
}

/** Reorders interleaved rotary pairs to halves: rows (h, 2i + half) become (h, half, i) in every run of `headRows` rows. */
export const deinterleave = (headRows: number): Reordering => {
  const from = (row: number): number => {
    const inHead = row % headRows,
      half = headRows / 2;
    return row - inHead + 2 * (inHead % half) + Math.floor(inHead / half);
  };
  return Object.assign(reordered(from), {
    runs: {
      unit: headRows,
      order(bytes: Uint8Array, size: number) {
        const head = new Uint8Array(headRows * size);
        for (let at = 0; at < bytes.length; at += head.length) {
          for (let r = 0; r < headRows; r++)
            head.set(bytes.subarray(at + from(r) * size, at + (from(r) + 1) * size), r * size);
          bytes.set(head, at);
        }
      },
    },
  });
};

/** Separates the rows of two kinds of heads that alternate: rows (h, kind, i) become (kind, h, i), `headRows` rows a head. */
export const separate = (headRows: number): Reordering =>
  reordered((row, rows) => {
    const kind = Math.floor((2 * row) / rows),
      at = row - (kind * rows) / 2,
      inHead = at % headRows;
    return 2 * (at - inHead) + kind * headRows + inHead;
  });

/** Separates, in each of `matrices` stacked on one another, rows that alternate: rows (m, i, kind) become (m, kind, i). */
export const unzip = (matrices: number): Reordering =>
  reordered((row, rows) => {
    const each = rows / matrices,
      inEach = row % each;
    return row - inEach + 2 * (inEach % (each / 2)) + Math.floor((2 * inEach) / each);
  });

/** Cuts two matrices into `matrices` each and stacks these by turns; nothing is copied. */
export function byTurns(a: Matrix, b: Matrix, matrices: number): Matrix {
  const runs = (whole: Matrix): readonly Matrix[] =>
      Array.from({ length: matrices }, (_, m) =>
        matrixRows(whole, (m * whole.outputs) / matrices, whole.outputs / matrices),
      ),
    others = runs(b);
  return stack(runs(a).flatMap((one, m) => [one, others[m]]));
}

/** Returns rows `from` to `from + count` of a matrix, as stored; nothing is copied. */
export function matrixRows({ inputs, parts }: Matrix, from: number, count: number): Matrix {
  const found: MatrixPart[] = [];
  let first = 0;
  for (const part of parts) {
    const { type, rows, read } = part,
      low = Math.max(from, first) - first,
      high = Math.min(from + count, first + rows) - first;
    if (low < high && read)
      found.push(unreadRows(type, high - low, (at, some, into) => read(low + at, some, into), part.unit));
    else if (low < high) {
      const each = part.bytes.length / rows;
      found.push({ type, rows: high - low, bytes: part.bytes.subarray(low * each, high * each) });
    }
    first += rows;
  }
  return { outputs: count, inputs, parts: found };
}

/** Transposes each of `matrices` stacked on one another, whose numbers are not in blocks. */
export const transpose =
  (matrices: number): Reordering =>
  ({ outputs, inputs, parts: [whole] }) => {
    const { type, bytes } = whole,
      rows = outputs / matrices,
      size = bytes.length / (outputs * inputs),
      out = new Uint8Array(bytes.length),
      numbers = (of: Uint8Array): Uint32Array | Uint16Array => {
        const own = of.byteOffset % size === 0 ? of : of.slice();
        return size === 4
          ? new Uint32Array(own.buffer, own.byteOffset, own.length / 4)
          : new Uint16Array(own.buffer, own.byteOffset, own.length / 2);
      };
    const from = numbers(bytes),
      to = numbers(out);
    for (let m = 0; m < matrices; m++) {
      const at = m * rows * inputs;
      for (let r = 0; r < rows; r++) for (let i = 0; i < inputs; i++) to[at + i * rows + r] = from[at + r * inputs + i];
    }
    return { outputs: matrices * inputs, inputs: rows, parts: [{ type, rows: matrices * inputs, bytes: out }] };
  };

/** Returns an order by the row of a part that comes to each place. */
const reordered =
  (from: (row: number, rows: number) => number): Reordering =>
  ({ parts, ...shape }) => ({
    ...shape,
    parts: parts.map(({ type, rows, bytes }) => {
      const size = bytes.length / rows,
        out = new Uint8Array(bytes.length);
      for (let r = 0; r < rows; r++) {
        const at = from(r, rows) * size;
        out.set(bytes.subarray(at, at + size), r * size);
      }
      return { type, rows, bytes: out };
    }),
  });
