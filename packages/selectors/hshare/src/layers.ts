import { kernel } from '@kv/core';

/**
 * Sets that the layers retrieved, `[1, L H B]`, where `wanted[0]` is not 0 with this layer's written: 1 + position,
 * ascending, then 0.
 *
 * @remarks `list` u32 `[H, N]`, with `count[h]` entries in row h; `width` = B, the most entries of a head.
 */
export const listKernel = kernel({
  id: 'hshare-listed',
  inputs: { list: 'u32', count: 'f32', before: 'f32', wanted: 'f32' },
  params: { layer: 'u32', width: 'u32' },
  output: { shape: ({ before }) => before },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let H = list_shape.x; let k = index % params.width; let h = index / params.width % H;
  output[index] = before[index];
  if (wanted[0] != 0.0 && index / (params.width * H) == params.layer) {
    output[index] = 0.0;
    if (f32(k) < count[h]) { output[index] = f32(list[h * list_shape.y + k]) + 1.0; }
  }
}`,
  ref({ list, count, before, wanted }, { layer, width }, out) {
    const [H = 0, n = 0] = list.shape;
    out.set(before.data);
    if (wanted.data[0] === 0) return;
    for (let h = 0; h < H; h++)
      for (let k = 0; k < width; k++) {
        const index = (layer * H + h) * width + k;
        if (index < out.length) out[index] = k < count.data[h] ? list.data[h * n + k] + 1 : 0;
      }
  },
});

/**
 * `before` `[1, L L]` plus, where `wanted[0]` is not 0, for this layer i and every j < i, the number of positions that
 * their sets share, over all heads.
 *
 * @remarks `sets` f32 `[H, N]` of 1 and 0, this layer's; `lists` `[1, L H B]` as `listKernel` gives them.
 */
export const layerOverlaps = kernel({
  id: 'hshare-layer-overlaps',
  inputs: { sets: 'f32', lists: 'f32', before: 'f32', wanted: 'f32' },
  params: { layer: 'u32', layers: 'u32', width: 'u32' },
  output: { shape: ({ before }) => before },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let H = sets_shape.x; let n = sets_shape.y; let i = index / params.layers; let j = index % params.layers;
  var sum = before[index];
  if (wanted[0] != 0.0 && i == params.layer && j < i) {
    for (var h = 0u; h < H; h++) { for (var k = 0u; k < params.width; k++) {
      let entry = u32(lists[(j * H + h) * params.width + k]);
      if (entry == 0u || entry > n) { break; }
      sum += sets[h * n + entry - 1u];
    } }
  }
  output[index] = sum;
}`,
  ref({ sets, lists, before, wanted }, { layer, layers, width }, out) {
    const [H = 0, n = 0] = sets.shape;
    out.set(before.data);
    if (wanted.data[0] === 0) return;
    for (let j = 0; j < Math.min(layer, layers); j++)
      for (let h = 0; h < H; h++)
        for (let k = 0; k < width; k++) {
          const entry = lists.data[(j * H + h) * width + k];
          if (entry < 1 || entry > n) break;
          out[layer * layers + j] += sets.data[h * n + entry - 1];
        }
  },
});

/**
 * `sets` `[H, N]`, or, where `offset` `[1, 1]` is below 0, those of the layer at that offset from this one, from
 * `lists` as `listKernel` gives them. O(H N log B).
 */
export const ofLayer = kernel({
  id: 'hshare-of-layer',
  inputs: { lists: 'f32', offset: 'f32', sets: 'f32' },
  params: { layer: 'u32', width: 'u32' },
  output: { shape: ({ sets }) => sets },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = sets_shape.y; let wanted = f32(index % n) + 1.0;
  output[index] = sets[index];
  if (offset[0] < 0.0) {
    let start = (u32(max(f32(params.layer) + offset[0], 0.0)) * sets_shape.x + index / n) * params.width;
    var low = 0u; var high = params.width;
    while (low < high) {
      let middle = (low + high) / 2u; let entry = lists[start + middle];
      if (entry > 0.0 && entry < wanted) { low = middle + 1u; } else { high = middle; }
    }
    output[index] = 0.0;
    if (low < params.width) { if (lists[start + low] == wanted) { output[index] = 1.0; } }
  }
}`,
  ref({ lists, offset, sets }, { layer, width }, out) {
    const [H = 0, n = 0] = sets.shape,
      by = offset.data[0];
    if (!(by < 0)) {
      out.set(sets.data);
      return;
    }
    for (let h = 0; h < H; h++)
      for (let k = 0; k < width; k++) {
        const entry = lists.data[(Math.max(0, layer + by) * H + h) * width + k];
        if (entry < 1) break;
        if (entry <= n) out[h * n + entry - 1] = 1;
      }
  },
});
