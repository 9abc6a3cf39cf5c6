import type { PoolOptions, Reduction } from '../ops.ts';
import { commonRows, contiguous, cpuTensor, dims, raggedAs, rowAt, rowOf, validSlots, zeros } from './dense.ts';
import type { CpuTensor } from './dense.ts';
import type { CpuKernel } from './kernel.ts';
import { simdElementwise } from './simd-elementwise.ts';
import { grouped, LOWEST, reduce } from './reduce.ts';
import { noGroup, outside, rank, take as takeVectors } from './slots.ts';
import { manyDots, simdKernels, simdProducts } from './simd-kernels.ts';
import type { Masks, Vectors } from './vectors.ts';

/** The same by the kernel. */
export const simdVectors = (k: CpuKernel): Vectors => ({
  norms: (x, p) => norms(k, x, p),
  dots: (a, b) => near(k, 'dots', a, b),
  distances: (a, b) => near(k, 'distances', a, b),
  matmul: (a, b) => matmul(k, a, b),
  grouped: (kind, x, rows) =>
    x.shape.length < 3 && (kind === 'mean' || kind === 'sum' || kind === 'max')
      ? groupRows(k, kind, x, rows)
      : grouped(kind, x, rows),
  pool: (x, options) => pool(k, x, options),
  normaliseRows: (x, softmax) => normaliseRows(k, x, softmax),
  firstBad: (x, atLeast) => firstBad(k, x, atLeast),
  select: (scores, budgets, masks) => select(k, scores, budgets, masks),
  elementwise: simdElementwise(k),
  reduce: (kind, x, axis) => {
    if (axis === 'channels') return reduce(kind, x, axis);
    if (x.shape.length < 3) return reduceSlots(k, kind, x);
    return kind === 'sum' || kind === 'mean' ? reduceVectors(k, kind, x) : reduce(kind, x, axis);
  },
  take: (table, index) => (table.shape.length < 3 ? take(k, table, index) : takeVectors(table, index)),
  groupSlots: (kind, x, groups, count) => groupSlots(k, kind, x, groups, count),
  reference: simdKernels(k),
  products: simdProducts(k),
  rank: (x, over) => (over === 'row' ? rankRows(k, x) : rank(x, over)),
});

/** Numbers of a block of vectors, which stay in the second-level cache between two looks at them. */
const BLOCK = 32_768;

/** Calls `see` with the slots of head `g` block by block, each at `at`. */
function inBlocks(
  k: CpuKernel,
  x: CpuTensor,
  g: number,
  count: number,
  at: number,
  see: (first: number, n: number) => void,
): void {
  const [, , d] = dims(x),
    from = x.offset + g * x.stride[0],
    step = (x.shape[1] ?? 1) === 1 ? d : x.stride[1],
    size = blockOf(d);
  for (let first = 0; first < count; first += size) {
    const n = Math.min(size, count - first);
    if (step === d) k.f32().set(x.data.subarray(from + first * d, from + (first + n) * d), at / 4);
    else
      for (let i = 0; i < n; i++) {
        const slot = from + (first + i) * step;
        k.f32().set(x.data.subarray(slot, slot + d), at / 4 + i * d);
      }
    see(first, n);
  }
}
const blockOf = (d: number): number => Math.max(16, Math.floor(BLOCK / Math.max(1, d)));

/** Copies a row of `[rows, n]`, or of `[rows, d]`, to `at`. */
function putRow(k: CpuKernel, x: CpuTensor, row: number, rows: number, count: number, at: number): void {
  const from = rowAt(x, row, rows);
  if ((x.shape[1] ?? 1) === 1 && count > 1) k.f32().fill(x.data[from], at / 4, at / 4 + count);
  else k.f32().set(x.data.subarray(from, from + count), at / 4);
}

/** The p-norm of each vector of `[rows, n, d]`. */
function norms(k: CpuKernel, given: CpuTensor, p: 1 | 2): CpuTensor {
  const x = contiguous(given, 2),
    [rows, slots, d] = dims(x),
    out = zeros([rows, slots], 'f32', x.lengths),
    [block = 0, found = 0] = k.place(4 * blockOf(d) * d, 4 * blockOf(d));
  for (let r = 0; r < rows; r++)
    inBlocks(k, x, r, slots, block, (first, n) => {
      k.norms(block, n, d, p, found);
      out.data.set(k.f32().subarray(found / 4, found / 4 + n), r * slots + first);
    });
  return out;
}

/** `[r, d], [r', n, d] -> [r, n]`: inner products or distances. */
function near(k: CpuKernel, kind: 'dots' | 'distances', query: CpuTensor, vectors: CpuTensor): CpuTensor {
  const q = contiguous(query, 1),
    x = contiguous(vectors, 2),
    rows = commonRows(kind, q, x),
    [heads, slots, d] = dims(x),
    group = rows / Math.max(1, heads),
    size = blockOf(d),
    out = zeros([rows, slots], 'f32', raggedAs(rows, x)),
    [block = 0, own = 0, found = 0] = k.place(4 * size * d, 4 * group * d, 4 * group * size);
  if (kind === 'dots' && group >= 3 && q.shape[0] === rows && q.stride[0] === d && x.stride[1] === d) {
    for (let g = 0; g < heads; g++) {
      const first = rowAt(q, g * group, rows),
        from = x.offset + g * x.stride[0];
      manyDots(
        k,
        q.data.subarray(first, first + group * d) as Float32Array,
        x.data.subarray(from, from + slots * d) as Float32Array,
        d,
        out.data.subarray(g * group * slots, (g + 1) * group * slots) as Float32Array,
      );
    }
    return out;
  }
  for (let g = 0; g < heads; g++) {
    for (let r = 0; r < group; r++) putRow(k, q, g * group + r, rows, d, own + 4 * r * d);
    inBlocks(k, x, g, slots, block, (first, n) => {
      k[kind](own, group, block, n, d, found, 4 * size);
      for (let r = 0; r < group; r++) {
        const from = found / 4 + r * size;
        out.data.set(k.f32().subarray(from, from + n), (g * group + r) * slots + first);
      }
    });
  }
  return out;
}

/** `a [r, n] x b [r', n, d] -> [r, d]` over valid slots. */
function matmul(k: CpuKernel, weights: CpuTensor, vectors: CpuTensor): CpuTensor {
  const a = contiguous(weights, 1),
    b = contiguous(vectors, 2),
    rows = commonRows('ops.matmul', a, b),
    [heads, slots, d] = dims(b),
    group = rows / Math.max(1, heads),
    size = blockOf(d),
    out = zeros([rows, d]),
    [block = 0, share = 0, sums = 0] = k.place(4 * size * d, 4 * size, 8 * group * d);
  const counts = Array.from({ length: rows }, (_, r) =>
    Math.min(validSlots(a, rowOf(a, r, rows)), validSlots(b, rowOf(b, r, rows)), slots),
  );
  for (let g = 0; g < heads; g++) {
    const own = counts.slice(g * group, (g + 1) * group);
    k.f64().fill(0, sums / 8, sums / 8 + group * d);
    inBlocks(k, b, g, Math.max(0, ...own), block, (first) => {
      for (let r = 0; r < group; r++) {
        const n = Math.max(0, Math.min(size, own[r] - first)),
          from = rowAt(a, g * group + r, rows) + first;
        if ((a.shape[1] ?? 1) === 1) k.f32().fill(a.data[from - first], share / 4, share / 4 + n);
        else k.f32().set(a.data.subarray(from, from + n), share / 4);
        k.mix(share, 0, 1, block, n, d, sums + 8 * r * d);
      }
    });
    out.data.set(k.f64().subarray(sums / 8, sums / 8 + group * d), g * group * d);
  }
  return out;
}

const KINDS = { mean: 0, sum: 1, max: 2 } as const;
/** All rows of `[all, n]` to `rows`, neighbours together. */
function groupRows(k: CpuKernel, kind: keyof typeof KINDS, given: CpuTensor, rows: number): CpuTensor {
  const x = contiguous(given, 1),
    [all, slots] = dims(x),
    count = all / rows,
    wide = 4 * Math.ceil(slots / 4),
    out = zeros([rows, ...x.shape.slice(1)], 'f32', raggedAs(rows, x)),
    [own = 0, found = 0] = k.place(4 * count * wide, 4 * wide);
  for (let r = 0; r < rows; r++) {
    for (let i = 0; i < count; i++) putRow(k, x, r * count + i, all, slots, own + 4 * i * wide);
    k.groups(KINDS[kind], own, 4 * wide, count, slots, found);
    out.data.set(k.f32().subarray(found / 4, found / 4 + slots), r * slots);
  }
  return out;
}

function pool(k: CpuKernel, given: CpuTensor, { kernel, kind, except = 0 }: PoolOptions): CpuTensor {
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

/** 0, or 1 + the place of the first number that is not finite or below `atLeast`. */
function firstBad(k: CpuKernel, given: CpuTensor, atLeast: number): CpuTensor {
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
    break;
  }
  return out;
}

/** Each row over its valid slots divided by its sum, exponentiated first or not. */
function normaliseRows(k: CpuKernel, given: CpuTensor, softmax: boolean): CpuTensor {
  const x = contiguous(given, 1),
    [rows, slots] = dims(x),
    out = zeros(x.shape, 'f32', x.lengths),
    [own = 0, work = 0, found = 0] = k.place(4 * slots + 4, 8 * slots + 8, 4 * slots + 4);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(x, r);
    putRow(k, x, r, rows, n, own);
    k.shares(own, n, softmax ? 1 : 0, work, found);
    out.data.set(k.f32().subarray(found / 4, found / 4 + n), r * slots);
  }
  return out;
}

function select(k: CpuKernel, scores: CpuTensor, budgets: CpuTensor, masks: Masks): CpuTensor {
  const [x, forced, banned] = [scores, masks.forced, masks.banned].map((t) => t && contiguous(t, 1)) as [
      CpuTensor,
      CpuTensor | undefined,
      CpuTensor | undefined,
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

/** Each row over its valid slots, `[rows, 1]`. */
function reduceSlots(k: CpuKernel, kind: Reduction, given: CpuTensor): CpuTensor {
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

/** The sum or mean of each row's vectors, `[rows, 1, d]`. */
function reduceVectors(k: CpuKernel, kind: 'sum' | 'mean', given: CpuTensor): CpuTensor {
  const x = contiguous(given, 2),
    [rows, , d] = dims(x),
    out = zeros([rows, 1, d]),
    size = blockOf(d),
    [block = 0, ones = 0, sums = 0] = k.place(4 * size * d, 4 * size, 8 * d);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(x, r);
    k.f32().fill(1, ones / 4, ones / 4 + size);
    k.f64().fill(0, sums / 8, sums / 8 + d);
    inBlocks(k, x, r, n, block, (_, count) => k.mix(ones, 0, 1, block, count, d, sums));
    const total = k.f64().subarray(sums / 8, sums / 8 + d);
    for (let c = 0; c < d; c++) out.data[r * d + c] = kind === 'mean' && n > 0 ? total[c] / n : total[c];
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
function take(k: CpuKernel, table: CpuTensor, indices: CpuTensor): CpuTensor {
  const from = contiguous(table, 1),
    index = contiguous(indices, 1),
    rows = commonRows('ops.take', from, index),
    [, size] = dims(from),
    [, slots] = dims(index),
    out = zeros([rows, slots], from.dtype, raggedAs(rows, index)),
    [own = 0, places = 0, found = 0] = k.place(4 * size, 4 * slots, 4 * slots),
    bits = (of: CpuTensor['data']): CpuTensor['data'] => (of instanceof Uint32Array ? k.u32() : k.f32());
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
  given: CpuTensor,
  groups: CpuTensor,
  count: number,
): CpuTensor {
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

function rankRows(k: CpuKernel, given: CpuTensor): CpuTensor {
  const x = contiguous(given, 1),
    [rows, slots] = dims(x),
    out = zeros(x.shape, 'f32', x.lengths),
    [own = 0, work = 0, found = 0] = k.place(4 * slots, 8192 + 16 * slots, 4 * slots);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(x, r);
    putRow(k, x, r, rows, n, own);
    k.rank(own, n, work, found);
    out.data.set(k.f32().subarray(found / 4, found / 4 + n), r * slots);
  }
  return out;
}
