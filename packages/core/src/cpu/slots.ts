import { KvError } from '../errors.ts';
import type { PoolOptions } from '../ops.ts';
import {
  commonRows,
  cpuTensor,
  dense,
  dims,
  elements,
  raggedAs,
  rowAt,
  rowOf,
  strides,
  validSlots,
  zeros,
} from './dense.ts';
import type { CpuTensor } from './dense.ts';
import type { Masks } from './vectors.ts';
import { LOWEST } from './reduce.ts';
import { descending, nth, numbersFor } from './radix.ts';

export function pool(x: CpuTensor, { kernel, kind, except = 0 }: PoolOptions): CpuTensor {
  const [rows, slots] = dims(x),
    from = dense(x).data,
    out = zeros(x.shape, 'f32', x.lengths),
    max = kind === 'max',
    room = kernel * Math.ceil((slots + kernel - 1) / kernel),
    [before, after] = [new Float64Array(room), new Float64Array(room)];
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x, r),
      end = Math.max(0, count - except),
      at = r * slots;
    for (let i = end; i < count; i++) out.data[at + i] = from[at + i];
    // a window is the end of one run and the beginning of the next, or a run
    runs(before, from, at, end, kernel, max, false);
    runs(after, from, at, end, kernel, max, true);
    for (let i = 0; i < end; i++) {
      const first = after[i],
        last = before[i + kernel - 1];
      if (max) out.data[at + i] = last > first ? last : first;
      else out.data[at + i] = (i % kernel === 0 ? first : first + last) / kernel;
    }
  }
  return out;
}

/**
 * Numbers [at, at + end) between half a kernel of nothing on either side, cut in runs as wide as the kernel: sums or
 * maxima from the beginning of each run up to every number, or `back` from its end. So a window takes two numbers
 * whatever its width, and nothing is taken off a sum again, which would leave rounding behind.
 */
function runs(
  into: Float64Array,
  data: Float32Array | Uint32Array,
  at: number,
  end: number,
  kernel: number,
  max: boolean,
  back: boolean,
): void {
  const half = (kernel - 1) / 2,
    n = kernel * Math.ceil((end + kernel - 1) / kernel),
    none = max ? LOWEST : 0;
  for (let step = 0, place = 0, so = none; step < n; step++) {
    const i = back ? n - 1 - step : step,
      v = i >= half && i < end + half ? data[at + i - half] : none;
    if (place === 0) so = none;
    if (!max) so += v;
    else if (v > so) so = v;
    into[i] = so;
    place = place === kernel - 1 ? 0 : place + 1;
  }
}

export function rank(x: CpuTensor, over: 'row' | 'all'): CpuTensor {
  const [rows, slots] = dims(x),
    from = elements(x),
    out = zeros(x.shape, 'f32', x.lengths),
    counts = Uint32Array.from({ length: rows }, (_, r) => validSlots(x, r)),
    together = over === 'all' ? rows : 1;
  for (let first = 0; first < rows; first += together) {
    // ties to the lower slot first, then to the lower row
    const places = new Uint32Array(together * slots);
    let n = 0;
    for (let i = 0; i < slots; i++)
      for (let r = first; r < first + together; r++) if (i < counts[r]) places[n++] = r * slots + i;
    const sorted = descending(from, places.subarray(0, n));
    for (let place = 0; place < n; place++) out.data[sorted[place]] = place;
  }
  return out;
}

export function lastSlots(like: CpuTensor, w: number): CpuTensor {
  const [rows, slots] = dims(like),
    out = zeros([rows, slots], 'f32', like.lengths);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(like, r);
    out.data.fill(1, r * slots + Math.max(0, n - w), r * slots + n);
  }
  return out;
}

export const outside = (index: number, row: number, slot: number, size: number): KvError =>
  new KvError('ops.take', `index ${index} at row ${row}, slot ${slot} must be below ${size}`);

export function take(table: CpuTensor, index: CpuTensor): CpuTensor {
  const rows = commonRows('ops.take', table, index),
    [, size, channels] = dims(table),
    [, slots] = dims(index);
  const [, st, sc] = strides(table),
    [, si] = strides(index),
    wide = table.shape.length === 3;
  const out = zeros(wide ? [rows, slots, channels] : [rows, slots], table.dtype, raggedAs(rows, index));
  for (let r = 0; r < rows; r++) {
    const fromT = table.offset + rowOf(table, r, rows) * table.stride[0],
      fromI = index.offset + rowOf(index, r, rows) * index.stride[0];
    for (let i = 0, n = validSlots(index, rowOf(index, r, rows)); i < n; i++) {
      const at = index.data[fromI + i * si];
      if (at >= size) throw outside(at, r, i, size);
      for (let c = 0; c < channels; c++)
        out.data[(r * slots + i) * channels + c] = table.data[fromT + at * st + c * sc];
    }
  }
  return out;
}

export const noGroup = (group: number, slot: number, count: number): KvError =>
  new KvError('ops.groupSlots', `group ${group} of slot ${slot} must be below ${count}`);

export function groupSlots(kind: 'mean' | 'sum' | 'max', x: CpuTensor, groups: CpuTensor, count: number): CpuTensor {
  const rows = commonRows('ops.groupSlots', x, groups),
    out = zeros([rows, count]),
    [, sx] = strides(x),
    [, sg] = strides(groups);
  const sizes = new Float64Array(count),
    sums = new Float64Array(count);
  for (let r = 0; r < rows; r++) {
    const fromX = x.offset + rowOf(x, r, rows) * x.stride[0],
      fromG = groups.offset + rowOf(groups, r, rows) * groups.stride[0];
    sizes.fill(0);
    sums.fill(kind === 'max' ? LOWEST : 0);
    const n = Math.min(validSlots(x, rowOf(x, r, rows)), validSlots(groups, rowOf(groups, r, rows)));
    for (let i = 0; i < n; i++) {
      const g = groups.data[fromG + i * sg],
        v = x.data[fromX + i * sx];
      if (g >= count) throw noGroup(g, i, count);
      sizes[g]++;
      sums[g] = kind === 'max' ? Math.max(sums[g], v) : sums[g] + v;
    }
    for (let g = 0; g < count; g++)
      out.data[r * count + g] = sizes[g] === 0 ? 0 : kind === 'mean' ? sums[g] / sizes[g] : sums[g];
  }
  return out;
}

/** What a slot is to `select`. */
const CLOSED = 0,
  OPEN = 1,
  TAKEN = 2;

/** Writes `mark` wherever a mask's row is set, and counts how often. */
function stamp(marks: Uint8Array, mask: CpuTensor, from: number, n: number, as: number): number {
  const [, step] = strides(mask),
    { data } = mask;
  let count = 0;
  for (let i = 0, at = from; i < n; i++, at += step)
    if (data[at] !== 0) {
      marks[i] = as;
      count++;
    }
  return count;
}

export function select(scores: CpuTensor, budgets: CpuTensor, { forced, banned, active }: Masks): CpuTensor {
  const rows = commonRows('ops.select', scores, budgets, forced, banned),
    [, slots] = dims(scores),
    [, step] = strides(scores),
    { data } = scores,
    counts = new Uint32Array(rows),
    out = zeros([rows, slots], 'u32', cpuTensor(counts, [rows])),
    ragged = raggedAs(rows, scores, forced, banned),
    marks = new Uint8Array(slots),
    numbers = numbersFor(slots);
  for (let r = 0; r < rows; r++) {
    if (active && active.data[rowAt(active, r, rows)] === 0) continue;
    const n = ragged ? ragged.data[r] : slots,
      from = rowAt(scores, r, rows);
    marks.fill(OPEN, 0, n);
    if (banned) stamp(marks, banned, rowAt(banned, r, rows), n, CLOSED);
    const taken = forced ? stamp(marks, forced, rowAt(forced, r, rows), n, TAKEN) : 0;
    let free = 0;
    for (let i = 0; i < n; i++) if (marks[i] === OPEN) numbers[free++] = data[from + i * step];
    const room = Math.max(0, Math.min(Math.floor(budgets.data[rowAt(budgets, r, rows)]) - taken, free));
    if (room > 0) {
      const all = room === free,
        { border, ties } = all ? { border: 0, ties: 0 } : nth(free, room);
      let left = ties;
      for (let i = 0; i < n; i++) {
        const x = data[from + i * step];
        if (marks[i] === OPEN && (all || x > border || (x === border && left-- > 0))) marks[i] = TAKEN;
      }
    }
    let count = 0;
    for (let i = 0; i < n; i++) if (marks[i] === TAKEN) out.data[r * slots + count++] = i;
    counts[r] = count;
  }
  return out;
}

export function mark(kept: CpuTensor, like: CpuTensor): CpuTensor {
  const rows = commonRows('ops.mark', kept, like),
    [, slots] = dims(like),
    out = zeros([rows, slots], 'f32', raggedAs(rows, like));
  for (let r = 0; r < rows; r++) {
    const row = rowOf(kept, r, rows);
    for (let i = 0, n = validSlots(kept, row); i < n; i++)
      out.data[r * slots + kept.data[kept.offset + row * kept.stride[0] + i * (kept.stride[1] ?? 1)]] = 1;
  }
  return out;
}

export function firstBad(x: CpuTensor, atLeast: number): CpuTensor {
  const [rows, slots] = dims(x),
    [sr, ss] = strides(x),
    out = zeros([1], 'u32');
  for (let r = 0; r < rows; r++)
    for (let i = 0, n = validSlots(x, r); i < n; i++) {
      const v = x.data[x.offset + r * sr + i * ss];
      if (!Number.isFinite(v) || v < atLeast) {
        out.data[0] = 1 + r * slots + i;
        return out;
      }
    }
  return out;
}
