import { KvError } from '../errors.ts';
import type { Binary, Operand, Unary } from '../ops.ts';
import { commonRows, raggedAs, rowOf, strides, zeros } from './dense.ts';
import type { CpuTensor } from './dense.ts';

/** What is done to each number, or to those that stand at the same place in several operands. */
export type Kind = Unary | Binary | 'odds' | 'where';

/** Writes n numbers from `to` on: of operands that start at `at` and step by `by`. */
type Run = (out: Out, to: number, n: number, a: Numbers, b: Numbers, c: Numbers) => void;
type Out = Float32Array | Uint32Array;
interface Numbers {
  readonly data: Float32Array | Uint32Array | Float64Array;
  at: number;
  by: number;
}

/** 1 - h never below half an f32 ulp of 1, so that a lone token keeps finite odds. */
const ODDS_FLOOR = 2 ** -24;

/** A loop for each operation: one loop that called the operation would call it through a pointer for every number. */
const RUNS: Readonly<Record<Kind, Run>> = {
  exp: (out, to, n, { data, at, by }) => {
    for (let i = 0; i < n; i++) out[to + i] = Math.exp(data[at + i * by]);
  },
  log: (out, to, n, { data, at, by }) => {
    for (let i = 0; i < n; i++) out[to + i] = Math.log(data[at + i * by]);
  },
  log1p: (out, to, n, { data, at, by }) => {
    for (let i = 0; i < n; i++) out[to + i] = Math.log1p(data[at + i * by]);
  },
  sqrt: (out, to, n, { data, at, by }) => {
    for (let i = 0; i < n; i++) out[to + i] = Math.sqrt(data[at + i * by]);
  },
  abs: (out, to, n, { data, at, by }) => {
    for (let i = 0; i < n; i++) out[to + i] = Math.abs(data[at + i * by]);
  },
  floor: (out, to, n, { data, at, by }) => {
    for (let i = 0; i < n; i++) out[to + i] = Math.floor(data[at + i * by]);
  },
  add: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) out[to + i] = a[at + i * by] + b[bt + i * bb];
  },
  sub: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) out[to + i] = a[at + i * by] - b[bt + i * bb];
  },
  mul: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) out[to + i] = a[at + i * by] * b[bt + i * bb];
  },
  div: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) out[to + i] = a[at + i * by] / b[bt + i * bb];
  },
  max: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) {
      const x = a[at + i * by],
        y = b[bt + i * bb];
      out[to + i] = x > y ? x : y;
    }
  },
  min: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) {
      const x = a[at + i * by],
        y = b[bt + i * bb];
      out[to + i] = x < y ? x : y;
    }
  },
  less: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) out[to + i] = a[at + i * by] < b[bt + i * bb] ? 1 : 0;
  },
  atLeast: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) out[to + i] = a[at + i * by] >= b[bt + i * bb] ? 1 : 0;
  },
  equal: (out, to, n, { data: a, at, by }, { data: b, at: bt, by: bb }) => {
    for (let i = 0; i < n; i++) out[to + i] = a[at + i * by] === b[bt + i * bb] ? 1 : 0;
  },
  where: (out, to, n, { data: m, at, by }, { data: a, at: bt, by: bb }, { data: b, at: ct, by: cb }) => {
    for (let i = 0; i < n; i++) out[to + i] = m[at + i * by] !== 0 ? a[bt + i * bb] : b[ct + i * cb];
  },
  odds: (out, to, n, { data: h, at, by }) => {
    for (let i = 0; i < n; i++) {
      const x = h[at + i * by];
      out[to + i] = x / Math.max(1 - x, ODDS_FLOOR);
    }
  },
};
/** A result to be filled, `[rows, outer, inner]`: rows of slots where there is one channel, else vectors. */
export interface Elements {
  readonly out: CpuTensor;
  readonly rows: number;
  readonly outer: number;
  readonly inner: number;
  /** One to three, which broadcast. */
  readonly operands: readonly Operand[];
}

/** The broadcast shape of one to three operands, ragged as they are; it has the larger rank. */
export function elementsOf(at: string, operands: readonly Operand[]): Elements {
  const tensors = operands.filter((x): x is CpuTensor => typeof x !== 'number');
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

/** The size of an axis of two that broadcast, or -1. An axis of size 0 anywhere leaves nothing to compute. */
const joined = (a: number, b: number): number => (a === b || b === 1 ? a : a === 1 ? b : -1);

/** By plain loops. */
export function elementwise(kind: Kind, { out, rows, outer, inner, operands }: Elements): CpuTensor {
  const sources = [0, 1, 2].map((i) => source(operands[i] ?? 0)) as [Source, Source, Source],
    [a, b, c] = sources.map(({ numbers }) => numbers) as [Numbers, Numbers, Numbers],
    run = RUNS[kind],
    { data } = out;
  for (let r = 0, to = 0; r < rows; r++) {
    const starts = sources.map((x) => x.row(r, rows)) as [number, number, number];
    for (let j = 0; j < outer; j++, to += inner) {
      for (let i = 0; i < 3; i++) {
        const { numbers, slot, channel } = sources[i];
        numbers.at = starts[i] + j * slot;
        numbers.by = outer === 1 && channel === 0 ? slot : channel;
      }
      run(data, to, inner, a, b, c);
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
/** Where an operand's numbers are; a number is an array of one that never steps. */
function source(x: Operand): Source {
  if (typeof x === 'number')
    return { numbers: { data: Float64Array.of(x), at: 0, by: 0 }, slot: 0, channel: 0, row: () => 0 };
  const { data, offset, stride } = x as CpuTensor,
    [, slot, channel] = strides(x as CpuTensor);
  return { numbers: { data, at: 0, by: 0 }, slot, channel, row: (r, rows) => offset + rowOf(x, r, rows) * stride[0] };
}
