import type { GpuKernel } from '@kv/gpu';
import { variants } from '../variants.ts';

/** Words of a tile: its expert, and the first of its rows in order and the one after the last. */
export const TILE_WORDS = 3;

/**
 * One workgroup: rows' chosen experts, `pairs` of them, in the order of the experts' numbers, to `order [pairs]`, and tiles of
 * at most `size` of these, each of one expert, to `tiles`; those that are left over have no rows.
 */
export const expertTiles: (experts: number) => GpuKernel<'chosen' | 'order' | 'tiles', 'pairs' | 'size' | 'most'> =
  variants((experts) => ({
    id: `model:expert-tiles:${experts}`,
    buffers: { chosen: 'u32', order: ['u32', 'write'], tiles: ['u32', 'write'] },
    scalars: { pairs: 'u32', size: 'u32', most: 'u32' },
    per: 'group',
    operations: ({ pairs }) => 2 * pairs * experts,
    source: /* wgsl */ `
var<workgroup> part: array<u32, 256>;
var<workgroup> counts: array<u32, ${experts}>;
fn stage(lane: u32, first: u32) {
  workgroupBarrier();
  if (first + lane < params.pairs) { part[lane] = chosen[first + lane]; }
  workgroupBarrier();
}
fn run(group: u32, lane: u32) {
  for (var e = lane; e < ${experts}u; e += 256u) { counts[e] = 0u; }
  for (var first = 0u; first < params.pairs; first += 256u) {
    stage(lane, first);
    let end = min(256u, params.pairs - first);
    for (var e = lane; e < ${experts}u; e += 256u) {
      var count = counts[e];
      for (var i = 0u; i < end; i++) { count += u32(part[i] == e); }
      counts[e] = count;
    }
  }
  workgroupBarrier();
  var used = 0u;
  for (var e = 0u; e < ${experts}u; e++) { used += (counts[e] + params.size - 1u) / params.size; }
  for (var t = used + lane; t < params.most; t += 256u) {
    for (var i = 0u; i < ${TILE_WORDS}u; i++) { tiles[t * ${TILE_WORDS}u + i] = 0u; }
  }
  for (var own = 0u; own < ${experts}u; own += 256u) {
    let e = own + lane;
    var at = 0u;
    var tile = 0u;
    if (e < ${experts}u) {
      for (var below = 0u; below < e; below++) { at += counts[below]; tile += (counts[below] + params.size - 1u) / params.size; }
      let end = at + counts[e];
      for (var from_ = at; from_ < end; from_ += params.size) {
        tiles[tile * ${TILE_WORDS}u] = e;
        tiles[tile * ${TILE_WORDS}u + 1u] = from_;
        tiles[tile * ${TILE_WORDS}u + 2u] = min(end, from_ + params.size);
        tile++;
      }
    }
    for (var first = 0u; first < params.pairs; first += 256u) {
      stage(lane, first);
      for (var i = 0u; i < min(256u, params.pairs - first); i++) { if (part[i] == e) { order[at] = first + i; at++; } }
    }
  }
}`,
  }));
