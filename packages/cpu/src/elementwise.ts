import { KvError } from '@kv/core';
import { showValue, strides } from '@kv/core/engine';
import type { Binary, Operand, Unary } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import { commonRows, raggedAs, rowOf, zeros } from './dense.ts';

/** An elementwise operation on one or several operands. */
export type ElementwiseKind = Unary | Binary | 'odds' | 'where';

interface Numbers {
  readonly data: Float32Array | Uint32Array | Float64Array;
  at: number;
  by: number;
}

/** 1 - h never below half an f32 ulp of 1, so that a lone token keeps finite odds. */
const ODDS_FLOOR = 2 ** -24;

const OF: Readonly<Record<ElementwiseKind, (a: number, b: number, c: number) => number>> = {
  exp: Math.exp,
  log: Math.log,
  log1p: Math.log1p,
  sqrt: Math.sqrt,
  abs: Math.abs,
  floor: Math.floor,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  max: (a, b) => (a > b ? a : b),
  min: (a, b) => (a < b ? a : b),
  less: (a, b) => Number(a < b),
  atLeast: (a, b) => Number(a >= b),
  equal: (a, b) => Number(a === b),
  where: (mask, a, b) => (mask !== 0 ? a : b),
  odds: (h) => h / Math.max(1 - h, ODDS_FLOOR),
};
/** A result to be filled, `[rows, outer, inner]`: rows of slots if there is one channel, else vectors. */
export interface Elements {
  readonly out: HostTensor;
  readonly rows: number;
  readonly outer: number;
  readonly inner: number;
  /** One to three, which broadcast. */
  readonly operands: readonly Operand[];
}

/** Returns the broadcast shape of one to three operands, with the larger rank and the raggedness of the operands. */
export function elementsOf(at: string, operands: readonly Operand[]): Elements {
  const wrong = operands.findIndex((x) => typeof x !== 'number' && !('shape' in Object(x)));
  if (wrong >= 0) throw new KvError(at, `expected a tensor or a number, got ${showValue(operands[wrong])}`);
  const tensors = operands.filter((x): x is HostTensor => typeof x !== 'number');
  if (tensors.length === 0) throw new KvError(at, 'expected at least one tensor, got numbers only');
  const rows = commonRows(at, ...tensors);
  let rank = 1,
    slots = 1,
    channels = 1;
  for (const { shape } of tensors) {
    rank = Math.max(rank, shape.length);
    slots = joined(slots, shape[1] ?? 1);
    channels = joined(channels, shape[2] ?? 1);
  }
  if (slots < 0 || channels < 0)
    throw new KvError(at, `shapes ${tensors.map((x) => `[${x.shape}]`).join(' and ')} do not broadcast`);
  const out = zeros([rows, slots, channels].slice(0, rank), 'f32', raggedAs(rows, ...tensors));
  return channels === 1
    ? { out, rows, outer: 1, inner: slots, operands }
    : { out, rows, outer: slots, inner: channels, operands };
}

/** Returns the size of an axis of two operands that broadcast, or -1. An axis of size 0 leaves nothing to compute. */
const joined = (a: number, b: number): number => (a === b || b === 1 ? a : a === 1 ? b : -1);

/** Runs an elementwise operation with plain loops. */
export function elementwise(kind: ElementwiseKind, { out, rows, outer, inner, operands }: Elements): HostTensor {
  const sources = [0, 1, 2].map((i) => source(operands[i] ?? 0)) as [Source, Source, Source],
    [a, b, c] = sources.map(({ numbers }) => numbers) as [Numbers, Numbers, Numbers],
    of = OF[kind],
    { data } = out;
  for (let r = 0, to = 0; r < rows; r++) {
    const starts = sources.map((x) => x.row(r, rows)) as [number, number, number];
    for (let j = 0; j < outer; j++, to += inner) {
      for (let i = 0; i < 3; i++) {
        const { numbers, slot, channel } = sources[i];
        numbers.at = starts[i] + j * slot;
        numbers.by = outer === 1 && channel === 0 ? slot : channel;
      }
      for (let i = 0; i < inner; i++)
        data[to + i] = of(a.data[a.at + i * a.by], b.data[b.at + i * b.by], c.data[c.at + i * c.by]);
    }
  }
  return out;
}

interface Source {
  readonly numbers: Numbers;
  readonly slot: number;
  readonly channel: number;
  row(r: number, rows: number): number;
}
/** Returns the numbers and strides of an operand; a number becomes an array of one with strides 0. */
function source(x: Operand): Source {
  if (typeof x === 'number')
    return { numbers: { data: Float64Array.of(x), at: 0, by: 0 }, slot: 0, channel: 0, row: () => 0 };
  const { data, offset, stride } = x as HostTensor,
    [, slot, channel] = strides(x as HostTensor);
  return { numbers: { data, at: 0, by: 0 }, slot, channel, row: (r, rows) => offset + rowOf(x, r, rows) * stride[0] };
}
