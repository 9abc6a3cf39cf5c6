import type { CodeStream } from './code-stream.ts';
import { addressOf as at, modes, ops, real } from './instructions.ts';
import type { BufferSlice } from './layout.ts';

/** A layer's attention. */
export interface AttentionShape {
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  readonly softcap?: number | undefined;
  /** Positions that a query sees, its own included; 0 for all. */
  readonly window: number;
  /** Address of the sinks of its query heads; 0 for none. */
  readonly sinks: number;
  /** The layer's number among those that keep slots, and bytes from the first cache to this layer's words. */
  readonly layer: number;
  readonly cache: number;
  /** Where its queries are recorded, see `queryRanks`. */
  readonly rank: number;
  /** Whether blocks attend in 8 bits: keys, queries, weights and values. */
  readonly eight: boolean;
  /** How many numbers of a head share an output gate: one, or all. @defaultValue 1 */
  readonly gateRun?: number;
}

/** Rows of queries, keys and values, where they lie before attention. */
export interface ProjectedRows {
  readonly q: BufferSlice;
  readonly k: BufferSlice;
  readonly v: BufferSlice;
}

/**
 * Writes attention of one row, or of rows that are tokens of sequences of their own, each over its own caches, to which
 * its keys and values are appended.
 */
export function attendTokens(code: CodeStream, { q, k, v }: ProjectedRows, shape: AttentionShape): BufferSlice {
  const { queryHeads: H, kvHeads: G, headDim: d, scale, softcap = 0, window, sinks, cache, layer } = shape,
    { layout, sizes, rows, share } = code,
    bytes = sizes.partBytes(H, d),
    heads = [cache, H, G, d];
  keepQueries(code, q, shape);
  const parts = layout.take(1, rows * bytes),
    scratch = layout.take(2, sizes.tokenScratch(H / G, d)),
    held = { base: 1, at: parts.at, stride: bytes, room: parts } as const;
  code.use(
    [q, k, v].map((rows) => [rows, 'all']),
    [[held, 'pieces']],
    true,
  );
  code.put(ops.show, ...heads, at(q), q.stride, at(k), k.stride, at(v), v.stride);
  if (rows === 1) code.put(ops.token, ...heads, at(q), at(k), at(v), real(scale), real(softcap), window, at(held));
  else {
    code.put(ops.tokens, ...heads, at(q), q.stride, at(k), k.stride, at(v), v.stride, real(scale), real(softcap));
    code.put(window, at(held), bytes);
  }
  code.put(scratch.at + 2, layer, sinks);
  const out = code.value(H * d);
  code.use([[held, 'all']], [[out, share]]);
  if (rows === 1) code.put(ops.join, ...heads, window, at(held), at(out), layer);
  else code.put(ops.joins, ...heads, window, at(held), bytes, at(out), out.stride, layer);
  layout.give(parts);
  layout.give(scratch);
  return out;
}

/**
 * Writes attention of a block of rows of one sequence.
 * @param appended called after the append of their keys and values to the cache
 */
export function attendBlock(
  code: CodeStream,
  { q, k, v }: ProjectedRows,
  shape: AttentionShape,
  appended: () => void,
): BufferSlice {
  const { queryHeads: H, kvHeads: G, headDim: d, scale, softcap = 0, window, sinks, cache, layer } = shape,
    { layout, sizes } = code,
    eight = Number(shape.eight);
  keepQueries(code, q, shape);
  const scratch = layout.take(2, sizes.rowsScratch(d)),
    out = code.value(H * d);
  code.use(
    [
      [k, 'rows'],
      [v, 'rows'],
    ],
    [],
  );
  code.put(ops.append, cache, G, d, at(k), k.stride, at(v), v.stride);
  appended();
  code.barrier(true);
  const mean = layout.take(2, sizes.packScratch(d));
  code.put(ops.pack, eight, cache, G, d, Number(softcap !== 0 || sinks !== 0), mean.at + 2);
  layout.give(mean);
  code.barrier();
  code.use([[q, 'all']], [[out, 'pieces']], true);
  code.put(ops.attend, cache, H, G, d, at(q), q.stride, real(scale), real(softcap), window);
  code.put(at(out), out.stride, scratch.at + 2, layer, eight, sinks);
  layout.give(scratch);
  return out;
}

/** Writes the copy of queries that events read. */
function keepQueries(code: CodeStream, q: BufferSlice, { queryHeads, headDim, rank }: AttentionShape): void {
  code.use([[q, code.share]], []);
  code.put(ops.queries, at(q), q.stride, queryHeads * headDim, rank, modes[code.share]);
}
