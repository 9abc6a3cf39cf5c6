import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { Commands, Gpu } from '@kv/gpu';
import { attend } from '@kv/engine';
import type { Attend, AttendOptions, CacheView, Visible } from '@kv/engine';
import { encodeAttention, encodeColumns, type DeviceAttention } from './attention.ts';

/**
 * `attend` on the device, over a cache that is on the host: its keys and values go up with every call, so that few
 * queries (fewer than `from`) stay on the host.
 */
export function gpuAttend(gpu: Gpu, from = 16): Attend {
  return async (options) => {
    const { q, queryPositions, cache, counters, stats } = options,
      m = queryPositions.length,
      slots = longest(cache);
    if (m < from || slots === 0 || !queryPositions.every((p, i) => i === 0 || p > queryPositions[i - 1]))
      return attend(options);
    const heads = q.length / (m * cache.headDim);
    if (!(Number.isInteger(heads) && heads % cache.heads === 0))
      throw new KvError(
        'attend',
        `queries must be [H, ${m}, ${cache.headDim}] with H a multiple of ${cache.heads}, got ${q.length} numbers`,
      );
    if (counters !== undefined) {
      counters.fused++;
      if (stats !== undefined) counters.statistics++;
    }
    return gpu.scope(async ({ commands, read }) => {
      const inputs = uploaded(commands, options, heads),
        attended = encodeAttention(commands, inputs, { last: stats === undefined ? 0 : m });
      const { stride = 0, columnSum, columnMax } = stats ?? {};
      const kinds = [
        ...(columnSum ? [{ of: 'sum' as const, to: columnSum, rows: columnSum.length / stride }] : []),
        ...(columnMax ? [{ of: 'max' as const, to: columnMax, rows: heads }] : []),
      ];
      const columns = kinds.map(({ of, rows }) => {
        const made = commands.make([rows, slots]);
        encodeColumns(commands, inputs, attended, made, { of });
        return made;
      });
      const [out, ...results] = await read([attended.out, ...columns]);
      for (const [i, { data }] of results.entries()) collect(kinds[i], stride, data as Float32Array, slots);
      return (out.data as Float32Array).slice(0, m * heads * cache.headDim);
    });
  };
}

const longest = ({ lengths }: CacheView): number => lengths.reduce((a, b) => Math.max(a, b), 0);

function uploaded(
  commands: Commands,
  { q, queryPositions, cache, scale = 1 / Math.sqrt(cache.headDim), softcap, visible = [] }: AttendOptions,
  heads: number,
): DeviceAttention {
  const { heads: kvHeads, headDim, capacity } = cache,
    m = queryPositions.length,
    slots = longest(cache),
    views = Array.isArray(visible) ? (visible as readonly Visible[]) : [visible as Visible];
  const bounds = views.flatMap(({ lower, sinks = 0 }) => (lower === undefined ? [] : [{ lower, sinks }]));
  const masks = views.flatMap(({ mask }) => mask ?? []);
  return {
    m,
    heads,
    kvHeads,
    headDim,
    capacity,
    slots,
    scale,
    ...(softcap !== undefined && { softcap }),
    q: commands.upload(q, [heads, m, headDim]),
    keys: commands.upload(cache.keys, [kvHeads, capacity, headDim]),
    values: commands.upload(cache.values, [kvHeads, capacity, headDim]),
    positions: commands.upload(cache.positions, [kvHeads, capacity]),
    lengths: commands.upload(cache.lengths, [kvHeads]),
    rows: commands.upload(rowsWith(queryPositions, bounds), [m, 1 + 2 * bounds.length]),
    views: bounds.length,
    ...(masks.length > 0 && { mask: maskOf(commands, masks, heads, kvHeads, slots) }),
  };
}

/** Each query's position and what it does not see: `[m, 1 + 2 * views]`. */
export function rowsWith(
  positions: Uint32Array,
  bounds: readonly Required<Pick<Visible, 'lower' | 'sinks'>>[],
): Uint32Array {
  const most = 2 ** 32 - 1;
  return Uint32Array.from(
    [...positions].flatMap((p) => [
      p,
      ...bounds.flatMap(({ lower, sinks }) => [sinks, Math.min(most, Math.max(0, Math.ceil(lower(p))))]),
    ]),
  );
}

/** Masks as one: a slot is visible where all say so. */
function maskOf(
  commands: Commands,
  masks: readonly Uint8Array[],
  heads: number,
  kvHeads: number,
  slots: number,
): Tensor {
  const counts = masks.map((mask) => mask.length / slots);
  for (const [i, rows] of counts.entries())
    if (rows !== 1 && rows !== heads && rows !== kvHeads)
      throw new KvError(
        'attend',
        `a mask must have 1, ${kvHeads} or ${heads} rows of ${slots} slots, got ${masks[i].length} numbers`,
      );
  const rows = Math.max(...counts),
    all = new Uint32Array(rows * slots).fill(1);
  for (const [i, mask] of masks.entries())
    for (let at = 0; at < all.length; at++)
      if (mask[Math.floor((Math.floor(at / slots) * counts[i]) / rows) * slots + (at % slots)] === 0) all[at] = 0;
  return commands.upload(all, [rows, slots]);
}

/** Adds columns `[rows, slots]` to the statistics that are kept. */
function collect(
  { of, to }: { readonly of: 'sum' | 'max'; readonly to: Float32Array },
  stride: number,
  data: Float32Array,
  slots: number,
): void {
  for (let r = 0; r < data.length / slots; r++)
    for (let j = 0; j < slots; j++) {
      const at = r * stride + j,
        value = data[r * slots + j];
      to[at] = of === 'sum' ? to[at] + value : Math.max(to[at], value);
    }
}
