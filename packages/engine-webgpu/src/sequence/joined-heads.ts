import type { Tensor } from '@kv/core';
import type { SlotReader } from '@kv/engine';
import type { Commands } from '@kv/gpu';
import type { HeadPlaces } from '../attention.ts';
import { encodeSlots } from '../operations.ts';

/** Where the query heads of one layer are among those of all layers that read the same slots. */
type Places = Pick<SlotReader, 'rows'>;

/** Returns where kernels write what one layer's heads have. */
export const placesOf = ({ rows, all }: SlotReader, kvHeads: number): HeadPlaces => ({
  group: rows.length / kvHeads,
  step: all / kvHeads,
  at: rows[0],
});

/** Returns heads `[heads, ...rest]` as `[G, heads / G, rest]`: those of a KV head lie together. */
const grouped = (x: Tensor, kvHeads: number): Tensor => {
  const [heads, ...rest] = x.shape;
  return { ...x, shape: [kvHeads, heads / kvHeads, rest.reduce((a, b) => a * b, 1)] };
};

/** Records that what one layer has of its heads, `[H, ...rest]`, joins `all [heads of all readers, ...rest]`. */
export function joinHeads(commands: Commands, part: Tensor, all: Tensor, { rows }: Places, kvHeads: number): void {
  encodeSlots(commands, grouped(part, kvHeads), grouped(all, kvHeads), rows.length / kvHeads, 0, rows[0]);
}

/** Returns a copy of what one layer's heads have, `[H, ...rest]`, among `all [heads of all readers, ...rest]`. */
export function pickHeads(commands: Commands, all: Tensor, { rows }: Places, kvHeads: number): Tensor {
  const out = commands.make([rows.length, ...all.shape.slice(1)], all.dtype);
  encodeSlots(commands, grouped(all, kvHeads), grouped(out, kvHeads), rows.length / kvHeads, rows[0]);
  return out;
}
