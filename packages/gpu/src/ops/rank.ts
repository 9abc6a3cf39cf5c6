import type { Primitives } from '@kv/core';
import { run } from './run.ts';
import type { Commands } from '../commands.ts';
import { LOCAL, rankLocal, rankPairs, rankPlaces, rankStep } from '../kernels/rank.wgsl.ts';
import { sizes } from '../tensor.ts';
import type { Numeric } from './elementwise.ts';

/** Ranks by a bitonic sort: O(n log² n), one dispatch for each exchange that spans more than a workgroup. */
export const rankOp = (numeric: Numeric, g: Commands): Pick<Primitives, 'rank'> => ({
  rank(tensor, over) {
    const x = numeric(tensor),
      [rows, slots] = sizes(x),
      output = g.make(x.shape, 'f32', x.lengths);
    const joint = over === 'all' ? 1 : 0,
      segments = joint === 1 ? 1 : rows,
      entries = joint === 1 ? rows * slots : slots;
    if (rows * slots === 0) return output;
    const size = Math.max(LOCAL, 2 ** Math.ceil(Math.log2(entries))),
      all = segments * size;
    const keys = g.make([all], 'u32'),
      places = g.make([all], 'u32'),
      pairs = { keys, places };
    const space = [rows, slots, 1] as const;
    const local = (first: number, last: number): void =>
      run(g, rankLocal, { space, count: all / LOCAL, buffers: pairs, scalars: { size, first, last } });
    run(g, rankPairs, { space, count: all, buffers: { x, ...pairs }, scalars: { size, joint } });
    local(2, LOCAL);
    for (let block = 2 * LOCAL; block <= size; block *= 2) {
      for (let gap = block / 2; gap >= LOCAL; gap /= 2)
        run(g, rankStep, { space, count: all / 2, buffers: pairs, scalars: { size, block, gap } });
      local(block, block);
    }
    run(g, rankPlaces, { space, count: all, buffers: { keys, places, output }, scalars: { rows, slots, size, joint } });
    return output;
  },
});
