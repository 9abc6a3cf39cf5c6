import { KvError, LOWEST } from '@kv/core';
import { dims, noteBad, strides } from '@kv/core/engine';
import type { PoolOptions } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import { commonRows, cpuTensor, dense, raggedAs, rowAt, rowOf, validSlots, zeros } from './dense.ts';
import type { SlotMasks } from './vectors.ts';

/** Windows wider than this are pooled by blocks, in time that does not grow with their width. */
export const WIDE = 64;

export function pool(x: HostTensor, { kernel, kind, except = 0 }: PoolOptions): HostTensor {
  const [rows, slots] = dims(x),
    half = Math.min((kernel - 1) / 2, slots),
    from = dense(x),
    out = zeros(x.shape, 'f32', x.lengths);
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x, r),
      end = Math.max(0, count - except),
      at = r * slots;
    for (let i = end; i < count; i++) out.data[at + i] = from.data[at + i];
    if (kernel > WIDE) {
      const found = windows(from.data.subarray(at, at + end), half, kind);
      for (let i = 0; i < end; i++) out.data[at + i] = kind === 'max' ? found[i] : found[i] / kernel;
      continue;
    }
    for (let i = 0; i < end; i++) {
      let sum = 0,
        top = LOWEST;
      for (let j = Math.max(0, i - half); j <= Math.min(end - 1, i + half); j++) {
        const v = from.data[at + j];
        sum += v;
        if (v > top) top = v;
      }
      out.data[at + i] = kind === 'max' ? top : sum / kernel;
    }
  }
  return out;
}

/**
 * Returns the maximum or sum of x over [i - half, i + half] for every slot i, in O(n): a window is the end of one block
 * of its width and the start of the next (van Herk 1992). Nothing is subtracted, so no precision is lost.
 */
function windows(x: HostTensor['data'], half: number, kind: 'mean' | 'max'): Float64Array {
  const n = x.length,
    width = 2 * half + 1,
    none = kind === 'max' ? LOWEST : 0,
    join = kind === 'max' ? (a: number, b: number) => (b > a ? b : a) : (a: number, b: number) => a + b,
    at = (i: number): number => (i < 0 || i >= n ? none : x[i]),
    out = new Float64Array(n),
    ends = new Float64Array(width + 1).fill(none);
  // the windows that start in one block of x; only those centred on a slot count
  for (let first = -half; first + half < n; first += width) {
    for (let j = width - 1; j >= 0; j--) ends[j] = join(ends[j + 1], at(first + j));
    for (let j = 0, start = none; j < width && first + j + half < n; j++) {
      out[first + j + half] = join(ends[j], start);
      start = join(start, at(first + width + j));
    }
  }
  return out;
}

export function rank(x: HostTensor, over: 'row' | 'all'): HostTensor {
  const [rows, slots] = dims(x),
    from = dense(x),
    out = zeros(x.shape, 'f32', x.lengths);
  const entries: number[][] = over === 'all' ? [[]] : Array.from({ length: rows }, () => []);
  for (let r = 0; r < rows; r++)
    for (let i = 0, n = validSlots(x, r); i < n; i++) entries[over === 'all' ? 0 : r].push(r * slots + i);
  for (const list of entries) {
    // ties to the lower slot first, then to the lower row
    list.sort((a, b) => from.data[b] - from.data[a] || (a % slots) - (b % slots) || a - b);
    list.forEach((at, place) => {
      out.data[at] = place;
    });
  }
  return out;
}

export function lastSlots(like: HostTensor, w: number): HostTensor {
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

export function take(table: HostTensor, index: HostTensor): HostTensor {
  const rows = commonRows('ops.take', table, index),
    [, size, channels] = dims(table),
    [, slots] = dims(index);
  const [, st, sc] = strides(table),
    [, si] = strides(index),
    wide = table.shape.length === 3,
    whole = st === channels && sc === 1;
  const out = zeros(wide ? [rows, slots, channels] : [rows, slots], table.dtype, raggedAs(rows, index));
  for (let r = 0; r < rows; r++) {
    const fromT = table.offset + rowOf(table, r, rows) * table.stride[0],
      fromI = index.offset + rowOf(index, r, rows) * index.stride[0];
    for (let i = 0, run = 1, n = validSlots(index, rowOf(index, r, rows)); i < n; i += run) {
      const at = index.data[fromI + i * si],
        from = fromT + at * st,
        to = (r * slots + i) * channels;
      if (at >= size) throw outside(at, r, i, size);
      if (!whole) for (let c = 0; c < channels; c++) out.data[to + c] = table.data[from + c * sc];
      else {
        // copy runs of consecutive entries at once
        for (run = 1; i + run < n && at + run < size && index.data[fromI + (i + run) * si] === at + run; ) run++;
        out.data.set(table.data.subarray(from, from + run * channels), to);
      }
    }
  }
  return out;
}

export const noGroup = (group: number, slot: number, count: number): KvError =>
  new KvError('ops.groupSlots', `group ${group} of slot ${slot} must be below ${count}`);

export function groupSlots(kind: 'mean' | 'sum' | 'max', x: HostTensor, groups: HostTensor, count: number): HostTensor {
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

/** States of a slot in `select`. */
const CLOSED = 0,
  OPEN = 1,
  TAKEN = 2;

/** Writes `mark` wherever a mask's row is set, and returns how often. */
function stamp(marks: Uint8Array, mask: HostTensor, from: number, n: number, as: number): number {
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

export function select(scores: HostTensor, budgets: HostTensor, { forced, banned, active }: SlotMasks): HostTensor {
  const rows = commonRows('ops.select', scores, budgets, forced, banned),
    [, slots] = dims(scores),
    [, step] = strides(scores),
    { data } = scores,
    counts = new Uint32Array(rows),
    out = zeros([rows, slots], 'u32', cpuTensor(counts, [rows])),
    ragged = raggedAs(rows, scores, forced, banned),
    marks = new Uint8Array(slots),
    numbers = new Float32Array(slots);
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
      const border = numbers.subarray(0, free).sort()[free - room];
      let left = room;
      for (let i = free - room; i < free; i++) if (numbers[i] > border) left--;
      for (let i = 0; i < n; i++) {
        const x = data[from + i * step];
        if (marks[i] === OPEN && (x > border || (x === border && left-- > 0))) marks[i] = TAKEN;
      }
    }
    let count = 0;
    for (let i = 0; i < n; i++) if (marks[i] === TAKEN) out.data[r * slots + count++] = i;
    counts[r] = count;
  }
  return out;
}

export function mark(kept: HostTensor, like: HostTensor): HostTensor {
  const rows = commonRows('ops.mark', kept, like),
    [, slots] = dims(like),
    out = zeros([rows, slots], 'f32', raggedAs(rows, like));
  for (let r = 0; r < rows; r++) {
    const row = rowOf(kept, r, rows);
    for (let i = 0, n = validSlots(kept, row); i < n; i++) {
      const slot = kept.data[kept.offset + row * kept.stride[0] + i * (kept.stride[1] ?? 1)];
      if (slot < slots) out.data[r * slots + slot] = 1;
    }
  }
  return out;
}

export function firstBad(x: HostTensor, atLeast: number): HostTensor {
  const [rows, slots] = dims(x),
    [sr, ss] = strides(x),
    out = zeros([1], 'u32');
  for (let r = 0; r < rows; r++)
    for (let i = 0, n = validSlots(x, r); i < n; i++) {
      const v = x.data[x.offset + r * sr + i * ss];
      if (!Number.isFinite(v) || v < atLeast) {
        out.data[0] = 1 + r * slots + i;
        noteBad(out, v);
        return out;
      }
    }
  return out;
}
