import type { Products } from '@kv/core';
import type { Team } from './team.ts';
import { Room } from './workspace.ts';

/**
 * Products over a team's memory: vectors that lie there, as keys and values do, are read where they lie, with the same
 * bits. Others, and many queries, go to `apart`.
 */
export function heapProducts(team: Team, apart: Products): Products {
  const { heap, kernels } = team,
    room = new Room(team);
  const nearBy =
    (kind: 'dots' | 'distances'): Products['dots'] =>
    (q, x, d, out) => {
      const rows = q.length / d,
        n = x.length / d;
      if (rows > 2 && kind === 'dots') return apart.dots(q, x, d, out);
      if (!heap.holds(x)) return apart[kind](q, x, d, out);
      const at = room.at(8 * q.length + 4 * out.length),
        found = at + 8 * q.length;
      heap.doubles(at, q.length).set(q);
      kernels[kind](at, rows, x.byteOffset, n, d, found, 4 * n);
      out.set(heap.floats(found, out.length));
    };
  return {
    ...apart,
    dots: nearBy('dots'),
    distances: nearBy('distances'),
    norms(x, d, out) {
      if (!heap.holds(x)) return apart.norms(x, d, out);
      const found = room.at(4 * out.length);
      kernels.norms(x.byteOffset, out.length, d, 2, found);
      out.set(heap.floats(found, out.length));
    },
    mix(p, x, d, out) {
      if (!heap.holds(x)) return apart.mix(p, x, d, out);
      const n = x.length / d,
        sums = room.at(8 * out.length + 4 * p.length),
        shares = sums + 8 * out.length;
      heap.doubles(sums, out.length).fill(0);
      heap.floats(shares, p.length).set(p);
      kernels.mix(shares, 4 * n, out.length / d, x.byteOffset, n, d, sums);
      out.set(heap.doubles(sums, out.length));
    },
  };
}
