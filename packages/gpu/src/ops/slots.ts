import { KvError, LOWEST } from '@kv/core';
import type { Primitives } from '@kv/core';
import { bits } from '../kernel.ts';
import { run } from './run.ts';
import type { Commands } from '../commands.ts';
import { firstBad, firstOf } from '../kernels/first-bad.wgsl.ts';
import { groupSlots } from '../kernels/group-slots.wgsl.ts';
import { lastSlots } from '../kernels/last-slots.wgsl.ts';
import { mark } from '../kernels/mark.wgsl.ts';
import { pool } from '../kernels/pool.wgsl.ts';
import { select } from '../kernels/select.wgsl.ts';
import { take } from '../kernels/take.wgsl.ts';
import { up } from '../threshold.ts';
import { sharedRows, sizes } from '../tensor.ts';
import { fill } from './elementwise.ts';
import type { Numeric } from './elementwise.ts';
import { raggedAs } from './ragged.ts';

/** Returns operations on slots. */
export function slotOps(
  numeric: Numeric,
  g: Commands,
): Pick<Primitives, 'pool' | 'lastSlots' | 'take' | 'groupSlots' | 'select' | 'mark' | 'firstBad'> {
  return {
    pool(x, { kernel, kind, except = 0 }) {
      if (!Number.isInteger(kernel) || kernel < 1 || kernel % 2 === 0)
        throw new KvError('ops.pool', `kernel must be an odd whole number, got ${kernel}`);
      const output = g.make(x.shape, 'f32', x.lengths);
      run(g, pool(kind), {
        space: sizes(x),
        buffers: { x, output },
        // no wider than the row, or the sum of a slot and half the width could overflow 32 bits
        scalars: {
          half: Math.min((kernel - 1) / 2, sizes(x)[1]),
          except: Math.min(except, sizes(x)[1]),
          width: kernel,
        },
      });
      return output;
    },
    lastSlots(like, window) {
      const [rows, slots] = sizes(like),
        output = g.make([rows, slots], 'f32', like.lengths);
      run(g, lastSlots, {
        space: sizes(output),
        buffers: { like, output },
        scalars: { window: Math.max(0, window) },
      });
      return output;
    },
    take(table, index) {
      const rows = sharedRows('ops.take', table, index);
      const [, size, channels] = sizes(table),
        [, slots] = sizes(index);
      const output = g.make(
        table.shape.length === 3 ? [rows, slots, channels] : [rows, slots],
        table.dtype,
        raggedAs(g, rows, index),
      );
      run(g, take, {
        space: sizes(output),
        buffers: { table, index, output },
        scalars: { size, bad: table.dtype === 'u32' ? 0xffff_ffff : 0x7fc0_0000 },
      });
      return output;
    },
    groupSlots(kind, x, groups, count) {
      const rows = sharedRows('ops.groupSlots', x, groups),
        output = g.make([rows, count]);
      run(g, groupSlots(kind), {
        space: [rows, sizes(groups)[1], 1],
        count: rows * Math.ceil(count / 256),
        buffers: { x, groups, output },
        scalars: { groups_count: count },
      });
      return output;
    },
    select(of, budgets, { forced, banned, active: enabled } = {}) {
      const scores = numeric(of),
        rows = sharedRows('ops.select', scores, budgets, forced, banned),
        [, slots] = sizes(scores);
      const lengths = raggedAs(g, rows, scores, forced, banned);
      const counts = g.make([rows], 'u32'),
        kept = g.make([rows, slots], 'u32', counts);
      run(g, select, {
        space: [rows, slots, 1],
        count: rows,
        buffers: {
          scores: lengths ? { ...scores, lengths } : scores,
          ...{ budgets, forced, banned, enabled, kept, counts },
        },
      });
      return kept;
    },
    mark(kept, like) {
      const rows = sharedRows('ops.mark', kept, like),
        [, size] = sizes(like);
      const output = fill(g, [rows, size], 0, raggedAs(g, rows, like));
      run(g, mark, { space: [rows, sizes(kept)[1], 1], buffers: { kept, output }, scalars: { size } });
      return output;
    },
    firstBad(tensor, atLeast = LOWEST) {
      const x = numeric(tensor),
        [rows] = sizes(x),
        found = g.make([rows], 'u32'),
        output = g.make([1], 'u32');
      run(g, firstBad, {
        space: sizes(x),
        count: rows,
        buffers: { x, output: found },
        scalars: { lowest: ordered(up(atLeast)) },
      });
      run(g, firstOf, { space: [1, 1, 1], buffers: { found, output }, scalars: { size: rows } });
      return output;
    },
  };
}

/** Returns the order of an f32 as the kernels see it. */
function ordered(x: number): number {
  const word = x === 0 ? 0 : bits(x, 'f32');
  return (word >>> 31 === 1 ? ~word : word | 0x8000_0000) >>> 0;
}
