import { LOWEST } from '@kv/core';
import { dims, noteBad } from '@kv/core/engine';
import type { PoolOptions, Reduction } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import { commonRows, contiguous, cpuTensor, raggedAs, rowAt, rowOf, validSlots, zeros } from './dense.ts';
import type { CpuKernel } from './kernel.ts';
import { simdElementwise } from './simd-elementwise.ts';
import { reduceGroups, reduce } from './reduce.ts';
import { noGroup, outside, pool as poolPlainly, take as takeVectors, WIDE } from './slots.ts';
import { simdKernels, simdProducts } from './simd-kernels.ts';
import type { SlotMasks, Vectors } from './vectors.ts';

/** Returns the same operations computed by the WebAssembly kernel. */
export const simdVectors = (k: CpuKernel): Vectors => ({
  grouped: (kind, x, rows) =>
    x.shape.length < 3 && (kind === 'mean' || kind === 'sum' || kind === 'max')
      ? groupRows(k, kind, x, rows)
      : reduceGroups(kind, x, rows),
  pool: (x, options) => pool(k, x, options),
  normaliseRows: (x, softmax) => normaliseRows(k, x, softmax),
  firstBad: (x, atLeast) => firstBad(k, x, atLeast),
  select: (scores, budgets, masks) => select(k, scores, budgets, masks),
  elementwise: simdElementwise(k),
  reduce: (kind, x, axis) =>
    axis === 'channels' || x.shape.length === 3 ? reduce(kind, x, axis) : reduceSlots(k, kind, x),
  take: (table, index) => (table.shape.length < 3 ? take(k, table, index) : takeVectors(table, index)),
  groupSlots: (kind, x, groups, count) => groupSlots(k, kind, x, groups, count),
  reference: simdKernels(k),
  products: simdProducts(k),
  rank: (x, over) => rank(k, x, over),
});

/** Copies a row of `[rows, n]`, or of `[rows, d]`, to `at`. */
function putRow(k: CpuKernel, x: HostTensor, row: number, rows: number, count: number, at: number): void {
  const from = rowAt(x, row, rows);
  if ((x.shape[1] ?? 1) === 1 && count > 1) k.f32().fill(x.data[from], at / 4, at / 4 + count);
  else k.f32().set(x.data.subarray(from, from + count), at / 4);
}

const KINDS = { mean: 0, sum: 1, max: 2 } as const;
/** Reduces groups of consecutive rows of `[all, n]`, leaving `rows` rows. */
function groupRows(k: CpuKernel, kind: keyof typeof KINDS, given: HostTensor, rows: number): HostTensor {
  const x = contiguous(given, 1),
    [all, slots] = dims(x),
    count = all / rows,
    wide = 16 * Math.ceil(slots / 16),
    out = zeros([rows, ...x.shape.slice(1)], 'f32', raggedAs(rows, x)),
    [own = 0, found = 0] = k.place(4 * count * wide, 4 * wide);
  for (let r = 0; r < rows; r++) {
    for (let i = 0; i < count; i++) putRow(k, x, r * count + i, all, slots, own + 4 * i * wide);
    k.groups(KINDS[kind], own, 4 * wide, count, slots, found);
    out.data.set(k.f32().subarray(found / 4, found / 4 + slots), r * slots);
  }
  return out;
}

function pool(k: CpuKernel, given: HostTensor, options: PoolOptions): HostTensor {
  const { kernel, kind, except = 0 } = options;
  if (kernel > WIDE) return poolPlainly(given, options);
  const x = contiguous(given, 1),
    [rows, slots] = dims(x),
    half = (kernel - 1) / 2,
    max = kind === 'max',
    out = zeros(x.shape, 'f32', x.lengths),
    [own = 0, found = 0] = k.place(4 * (slots + kernel), 4 * slots);
  k.f32().fill(max ? LOWEST : 0, own / 4, own / 4 + slots + kernel);
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x, r),
      end = Math.max(0, count - except),
      from = rowAt(x, r, rows),
      at = own / 4 + half;
    k.f32().set(x.data.subarray(from, from + end), at);
    k.f32().fill(max ? LOWEST : 0, at + end, own / 4 + slots + kernel);
    k.pool(own, end, kernel, max ? 1 : 0, found);
    out.data.set(k.f32().subarray(found / 4, found / 4 + end), r * slots);
    out.data.set(x.data.subarray(from + end, from + count), r * slots + end);
  }
  return out;
}

/** Returns 0, or 1 + the index of the first number that is not finite or below `atLeast`. */
function firstBad(k: CpuKernel, given: HostTensor, atLeast: number): HostTensor {
  const x = contiguous(given, 1),
    [rows, slots] = dims(x),
    out = zeros([1], 'u32'),
    [own = 0] = k.place(4 * slots);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(x, r);
    putRow(k, x, r, rows, n, own);
    const bad = k.firstBad(own, n, atLeast);
    if (bad < 0) continue;
    out.data[0] = 1 + r * slots + bad;
    noteBad(out, k.f32()[own / 4 + bad]);
    break;
  }
  return out;
}

/** Divides each row by its sum over valid slots, after exponentiation in f32 for softmax. */
function normaliseRows(k: CpuKernel, given: HostTensor, softmax: boolean): HostTensor {
  const x = contiguous(given, 1),
    [rows, slots] = dims(x),
    out = zeros(x.shape, 'f32', x.lengths),
    [own = 0, found = 0] = k.place(4 * slots + 16, 4 * slots + 16);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(x, r);
    putRow(k, x, r, rows, n, own);
    if (softmax) k.mass(own, 4 * n, 1, n, found);
    else k.shares(own, n, found);
    out.data.set(k.f32().subarray(found / 4, found / 4 + n), r * slots);
  }
  return out;
}

function select(k: CpuKernel, scores: HostTensor, budgets: HostTensor, masks: SlotMasks): HostTensor {
  const [x, forced, banned] = [scores, masks.forced, masks.banned].map((t) => t && contiguous(t, 1)) as [
      HostTensor,
      HostTensor | undefined,
      HostTensor | undefined,
    ],
    { active } = masks,
    rows = commonRows('ops.select', x, budgets, forced, banned),
    [, slots] = dims(x),
    counts = new Uint32Array(rows),
    out = zeros([rows, slots], 'u32', cpuTensor(counts, [rows])),
    ragged = raggedAs(rows, x, forced, banned),
    [own = 0, first = 0, second = 0, work = 0, found = 0] = k.place(
      4 * slots,
      4 * slots,
      4 * slots,
      8192 + 5 * slots,
      4 * slots,
    );
  for (let r = 0; r < rows; r++) {
    if (active && active.data[rowAt(active, r, rows)] === 0) continue;
    const n = ragged ? ragged.data[r] : slots,
      budget = Math.max(0, Math.min(n, Math.floor(budgets.data[rowAt(budgets, r, rows)])));
    putRow(k, x, r, rows, n, own);
    if (forced) putRow(k, forced, r, rows, n, first);
    if (banned) putRow(k, banned, r, rows, n, second);
    const count = k.select(own, n, forced ? first : 0, banned ? second : 0, budget, work, found);
    out.data.set(k.u32().subarray(found / 4, found / 4 + count), r * slots);
    counts[r] = count;
  }
  return out;
}

/** Reduces each row over its valid slots, `[rows, 1]`. */
function reduceSlots(k: CpuKernel, kind: Reduction, given: HostTensor): HostTensor {
  const x = contiguous(given, 1),
    [rows, slots] = dims(x),
    out = zeros([rows, 1]),
    [own = 0] = k.place(4 * slots);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(x, r);
    putRow(k, x, r, rows, n, own);
    out.data[r] = reduced(k, kind, own, n);
  }
  return out;
}

function reduced(k: CpuKernel, kind: Reduction, at: number, n: number): number {
  if (kind === 'max') return k.fold(2, at, n, 0);
  if (kind === 'min') return k.fold(3, at, n, 0);
  const sum = k.fold(1, at, n, 0);
  if (kind === 'sum' || n === 0) return sum;
  return kind === 'mean' ? sum / n : Math.sqrt(k.fold(4, at, n, sum / n) / n);
}

/** `table[r, index[r', i]]` of numbers. */
function take(k: CpuKernel, table: HostTensor, indices: HostTensor): HostTensor {
  const from = contiguous(table, 1),
    index = contiguous(indices, 1),
    rows = commonRows('ops.take', from, index),
    [, size] = dims(from),
    [, slots] = dims(index),
    out = zeros([rows, slots], from.dtype, raggedAs(rows, index)),
    [own = 0, places = 0, found = 0] = k.place(4 * size, 4 * slots, 4 * slots),
    bits = (of: HostTensor['data']): HostTensor['data'] => (of instanceof Uint32Array ? k.u32() : k.f32());
  let last = -1;
  for (let r = 0; r < rows; r++) {
    const at = rowAt(from, r, rows),
      here = rowAt(index, r, rows),
      n = validSlots(index, rowOf(index, r, rows));
    if (at !== last) bits(from.data).set(from.data.subarray(at, at + size), own / 4);
    last = at;
    k.u32().set(index.data.subarray(here, here + n), places / 4);
    const bad = k.take(own, size, places, n, found);
    if (bad >= 0) throw outside(index.data[here + bad], r, bad, size);
    out.data.set(bits(out.data).subarray(found / 4, found / 4 + n), r * slots);
  }
  return out;
}

function groupSlots(
  k: CpuKernel,
  kind: keyof typeof KINDS,
  given: HostTensor,
  groups: HostTensor,
  count: number,
): HostTensor {
  const x = contiguous(given, 1),
    of = contiguous(groups, 1),
    rows = commonRows('ops.groupSlots', x, of),
    [, slots] = dims(of),
    out = zeros([rows, count]),
    [own = 0, places = 0, work = 0, found = 0] = k.place(4 * slots, 4 * slots, 16 * count, 4 * count);
  for (let r = 0; r < rows; r++) {
    const here = rowAt(of, r, rows),
      n = Math.min(validSlots(x, rowOf(x, r, rows)), validSlots(of, rowOf(of, r, rows)));
    putRow(k, x, r, rows, n, own);
    k.u32().set(of.data.subarray(here, here + n), places / 4);
    const bad = k.groupSlots(KINDS[kind], own, places, n, count, work, found);
    if (bad >= 0) throw noGroup(of.data[here + bad], bad, count);
    out.data.set(k.f32().subarray(found / 4, found / 4 + count), r * count);
  }
  return out;
}

function rank(k: CpuKernel, given: HostTensor, over: 'row' | 'all'): HostTensor {
  const x = contiguous(given, 1),
    [rows, slots] = dims(x),
    together = over === 'all' ? rows : 1,
    size = together * slots,
    out = zeros(x.shape, 'f32', x.lengths),
    counts = Uint32Array.from({ length: rows }, (_, r) => validSlots(x, r)),
    places = new Uint32Array(size),
    [own = 0, work = 0, found = 0] = k.place(4 * size, 8192 + 16 * size, 4 * size),
    f32 = k.f32();
  if (together === 1) {
    for (let r = 0; r < rows; r++) {
      putRow(k, x, r, rows, counts[r], own);
      k.rank(own, counts[r], work, found);
      out.data.set(f32.subarray(found / 4, found / 4 + counts[r]), r * slots);
    }
    return out;
  }
  for (let first = 0; first < rows; first += together) {
    let n = 0;
    // ties to the lower slot first, then to the lower row
    for (let i = 0; i < slots; i++)
      for (let r = first; r < first + together; r++) {
        if (i >= counts[r]) continue;
        f32[own / 4 + n] = x.data[rowAt(x, r, rows) + i];
        places[n++] = r * slots + i;
      }
    k.rank(own, n, work, found);
    for (let i = 0; i < n; i++) out.data[places[i]] = f32[found / 4 + i];
  }
  return out;
}
