import { KvError } from '../errors.ts';
import type { PoolOptions } from '../ops.ts';
import { commonRows, cpuTensor, dense, dims, raggedAs, rowOf, strides, validSlots, zeros } from './dense.ts';
import type { CpuTensor } from './dense.ts';
import { nth } from './nth.ts';
import { LOWEST } from './reduce.ts';

export function pool(x: CpuTensor, { kernel, kind, except = 0 }: PoolOptions): CpuTensor {
  if (!Number.isInteger(kernel) || kernel < 1 || kernel % 2 === 0)
    throw new KvError('ops.pool', `kernel must be an odd whole number, got ${kernel}`);
  const [rows, slots] = dims(x),
    half = (kernel - 1) / 2,
    from = dense(x),
    out = zeros(x.shape, 'f32', x.lengths);
  for (let r = 0; r < rows; r++) {
    const count = validSlots(x, r),
      end = Math.max(0, count - except),
      at = r * slots;
    for (let i = end; i < count; i++) out.data[at + i] = from.data[at + i];
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

export function rank(x: CpuTensor, over: 'row' | 'all'): CpuTensor {
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

export function lastSlots(like: CpuTensor, w: number): CpuTensor {
  const [rows, slots] = dims(like),
    out = zeros([rows, slots], 'f32', like.lengths);
  for (let r = 0; r < rows; r++) {
    const n = validSlots(like, r);
    out.data.fill(1, r * slots + Math.max(0, n - w), r * slots + n);
  }
  return out;
}

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
      if (at >= size) throw new KvError('ops.take', `index ${at} at row ${r}, slot ${i} must be below ${size}`);
      for (let c = 0; c < channels; c++)
        out.data[(r * slots + i) * channels + c] = table.data[fromT + at * st + c * sc];
    }
  }
  return out;
}

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
      if (g >= count) throw new KvError('ops.groupSlots', `group ${g} of slot ${i} must be below ${count}`);
      sizes[g]++;
      sums[g] = kind === 'max' ? Math.max(sums[g], v) : sums[g] + v;
    }
    for (let g = 0; g < count; g++)
      out.data[r * count + g] = sizes[g] === 0 ? 0 : kind === 'mean' ? sums[g] / sizes[g] : sums[g];
  }
  return out;
}

type Masks = { forced?: CpuTensor | undefined; banned?: CpuTensor | undefined; active?: CpuTensor | undefined };

export function select(scores: CpuTensor, budgets: CpuTensor, { forced, banned, active }: Masks): CpuTensor {
  const rows = commonRows('ops.select', scores, budgets, forced, banned),
    [, slots] = dims(scores),
    [, ss] = strides(scores);
  const counts = cpuTensor(new Uint32Array(rows), [rows]),
    out = zeros([rows, slots], 'u32', counts);
  const first = (t: CpuTensor, r: number): number => t.data[t.offset + rowOf(t, r, rows) * t.stride[0]];
  const masked = (t: CpuTensor | undefined, r: number): ((i: number) => boolean) => {
    if (t === undefined) return () => false;
    const from = t.offset + rowOf(t, r, rows) * t.stride[0],
      [, step] = strides(t);
    return (i) => t.data[from + i * step] !== 0;
  };
  const ragged = raggedAs(rows, scores, forced, banned),
    open = new Uint32Array(slots),
    numbers = new Float32Array(slots);
  for (let r = 0; r < rows; r++) {
    if (active && first(active, r) === 0) continue;
    const n = ragged ? ragged.data[r] : slots,
      from = scores.offset + rowOf(scores, r, rows) * scores.stride[0];
    const isForced = masked(forced, r),
      isBanned = masked(banned, r),
      kept: number[] = [];
    let free = 0;
    for (let i = 0; i < n; i++)
      if (isForced(i)) kept.push(i);
      else if (!isBanned(i)) {
        numbers[free] = scores.data[from + i * ss];
        open[free++] = i;
      }
    const room = Math.max(0, Math.min(Math.floor(first(budgets, r)) - kept.length, free));
    if (room > 0) {
      const border = room === free ? -Infinity : nth(numbers.subarray(0, free), room);
      let ties = room;
      for (let i = 0; i < free; i++) if (numbers[i] > border) ties--;
      for (let i = 0; i < free; i++)
        if (room === free || numbers[i] > border || (numbers[i] === border && ties-- > 0)) kept.push(open[i]);
    }
    kept.sort((a, b) => a - b);
    out.data.set(kept, r * slots);
    counts.data[r] = kept.length;
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
