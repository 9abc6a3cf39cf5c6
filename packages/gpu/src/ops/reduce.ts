import { KvError } from '@kv/core';
import type { Tensor, Primitives, Reduction } from '@kv/core';
import { run } from './run.ts';
import type { Commands } from '../commands.ts';
import { alongChannels } from '../kernels/along-channels.wgsl.ts';
import { foldSlots, foldThread } from '../kernels/fold.wgsl.ts';
import { matmul } from '../kernels/matmul.wgsl.ts';
import { normaliseRows } from '../kernels/normalise-rows.wgsl.ts';
import { sharedRows, sizes } from '../tensor.ts';
import { raggedAs } from './ragged.ts';

/** Returns operations that sum over an axis. */
export function reduceOps(
  g: Commands,
): Pick<Primitives, 'reduce' | 'groupRows' | 'simplex' | 'softmax' | 'matmul' | 'dot' | 'distance' | 'norm'> {
  /** Records threads that fold `size` elements, `step` apart; the first for result row r is in row r * factor. */
  const folded = (
    kind: Reduction,
    x: Tensor,
    output: Tensor,
    scalars: { readonly size: number; readonly step: number; readonly factor: number; readonly valid?: number },
  ): Tensor => {
    run(g, foldThread(kind), {
      space: sizes(output),
      buffers: { x, output },
      scalars: { valid: 0, ...scalars },
    });
    return output;
  };
  const normalised = (softmax: boolean, x: Tensor): Tensor => {
    const output = g.make(x.shape, 'f32', x.lengths);
    run(g, normaliseRows(softmax), { space: sizes(x), count: sizes(x)[0], buffers: { x, output } });
    return output;
  };
  const vectors = (at: string, kind: Parameters<typeof alongChannels>[0], a: Tensor | undefined, b: Tensor): Tensor => {
    const [, slots, size] = sizes(b);
    if (a && (a.shape[1] ?? 1) !== size)
      throw new KvError(at, `expected ${size} channels, got shapes [${a.shape}] and [${b.shape}]`);
    const rows = sharedRows(at, a, b),
      output = g.make([rows, slots], 'f32', raggedAs(g, rows, b));
    run(g, alongChannels(kind), {
      space: sizes(output),
      buffers: { a, b, output },
      scalars: { size },
    });
    return output;
  };
  return {
    reduce(kind, x, axis) {
      const [rows, slots, channels] = sizes(x),
        wide = x.shape.length === 3;
      if (axis === 'rows')
        return folded(kind, x, g.make([1, ...x.shape.slice(1)], 'f32', raggedAs(g, 1, x)), {
          size: rows,
          step: rows === 1 ? 0 : slots * channels,
          factor: 0,
        });
      if (axis === 'channels') {
        if (!wide) throw new KvError('ops.reduce', `channels exist in tensors of rank 3, got shape [${x.shape}]`);
        return folded(kind, x, g.make([rows, slots], 'f32', x.lengths), { size: channels, step: 1, factor: 1 });
      }
      if (wide)
        return folded(kind, x, g.make([rows, 1, channels]), {
          size: slots,
          step: slots === 1 ? 0 : channels,
          factor: 1,
          valid: 1,
        });
      const output = g.make([rows, 1]);
      run(g, foldSlots(kind), { space: sizes(x), count: rows, buffers: { x, output } });
      return output;
    },
    groupRows(kind, x, rows) {
      const [all, slots] = sizes(x);
      if (rows < 1 || all % rows !== 0)
        throw new KvError('ops.groupRows', `${all} rows cannot be grouped into ${rows}: expected a divisor`);
      return folded(kind, x, g.make([rows, slots], 'f32', raggedAs(g, rows, x)), {
        size: all / rows,
        step: all === 1 ? 0 : slots,
        factor: all / rows,
      });
    },
    simplex: (x) => normalised(false, x),
    softmax: (x) => normalised(true, x),
    matmul(a, b) {
      const rows = sharedRows('ops.matmul', a, b),
        [, slots, channels] = sizes(b);
      const output = g.make([rows, channels]);
      run(g, matmul, {
        space: [rows, slots, channels],
        count: rows * Math.ceil(channels / 64),
        buffers: { a, b, output },
      });
      return output;
    },
    dot: (q, k) => vectors('ops.dot', 'dot', q, k),
    distance: (o, v) => vectors('ops.distance', 'distance', o, v),
    norm: (x, p = 2) => vectors('ops.norm', p === 1 ? 'norm1' : 'norm2', undefined, x),
  };
}
