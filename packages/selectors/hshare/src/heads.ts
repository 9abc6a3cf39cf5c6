import { kernel } from '@kv/core';

/**
 * `before` `[H, H]` plus, where `wanted[0]` is not 0, for j < i, the number of slots that the sets of heads i and j
 * share: `sets` f32 `[H, n]` of 1 and 0. A `before` of another width counts as 0.
 */
export const overlaps = kernel({
  id: 'hshare-overlaps',
  inputs: { sets: 'f32', before: 'f32', wanted: 'f32' },
  output: { shape: ({ sets }) => [sets[0], sets[0]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let H = sets_shape.x; let n = sets_shape.y;
  let i = index / H; let j = index % H;
  var sum = 0.0;
  if (before_shape.y == H) { sum = before[index]; }
  if (wanted[0] != 0.0 && j < i) { for (var s = 0u; s < n; s++) { sum += sets[i * n + s] * sets[j * n + s]; } }
  output[index] = sum;
}`,
  ref({ sets, before, wanted }, _, out) {
    const [H = 0, n = 0] = sets.shape,
      known = before.shape[1] === H,
      counts = wanted.data[0] !== 0;
    for (let i = 0; i < H; i++)
      for (let j = 0; j < H; j++) {
        let sum = known ? before.data[i * H + j] : 0;
        if (counts && j < i) for (let s = 0; s < n; s++) sum += sets.data[i * n + s] * sets.data[j * n + s];
        out[i * H + j] = sum;
      }
  },
});

/** Most heads: the size of a thread's arrays. */
const MOST = 128;
/**
 * Head whose set each head uses, minus its own index, `[H, 1]`; a head that shares with none is its own leader. `share`
 * times, takes the pair j < i of largest overlap among the heads that are their own leaders: i uses j from then on, and
 * so do the heads that used i. Where `wanted[0]` is 0, they are those `before`, `[H, 1]`.
 *
 * @remarks `overlap` f32 `[H, H]`, at most 128 heads; pairs without overlap do not share. O(share H^2).
 */
export const leaders = kernel({
  id: 'hshare-leaders',
  inputs: { overlap: 'f32', before: 'f32', wanted: 'f32' },
  params: { share: 'u32' },
  per: 'row',
  output: { shape: ({ overlap }) => [overlap[0], 1] },
  wgsl: /* wgsl */ `
fn run(row: u32) {
  if (wanted[0] == 0.0) { output[row] = before[row]; return; }
  let H = min(overlap_shape.x, ${MOST}u);
  var uses: array<u32, ${MOST}>;
  for (var h = 0u; h < H; h++) { uses[h] = h; }
  for (var round = 0u; round < params.share; round++) {
    var best = 0.0; var at = H; var to = H;
    for (var i = 0u; i < H; i++) {
      if (uses[i] != i) { continue; }
      for (var j = 0u; j < i; j++) { if (uses[j] == j && overlap[i * overlap_shape.y + j] > best) { best = overlap[i * overlap_shape.y + j]; at = i; to = j; } }
    }
    if (at == H) { break; }
    uses[at] = to;
    for (var h = 0u; h < H; h++) { if (uses[h] == at && h != at) { uses[h] = to; } }
  }
  output[row] = 0.0;
  if (row < H) { output[row] = f32(uses[row]) - f32(row); }
}`,
  ref({ overlap, before, wanted }, { share }, out) {
    if (wanted.data[0] === 0) {
      out.set(before.data);
      return;
    }
    const all = out.length,
      H = Math.min(all, MOST),
      width = overlap.shape[1],
      uses = Array.from({ length: all }, (_, h) => h);
    for (let round = 0; round < share; round++) {
      let best = 0,
        at = -1,
        to = -1;
      for (let i = 0; i < H; i++) {
        if (uses[i] !== i) continue;
        for (let j = 0; j < i; j++)
          if (uses[j] === j && overlap.data[i * width + j] > best) [best, at, to] = [overlap.data[i * width + j], i, j];
      }
      if (at < 0) break;
      uses[at] = to;
      for (let h = 0; h < H; h++) if (uses[h] === at && h !== at) uses[h] = to;
    }
    out.set(uses.map((leader, h) => leader - h));
  },
});

/** Replaces every head's row of `sets` `[H, N]` by its leader's. */
export const rowsOfLeaders = kernel({
  id: 'hshare-rows',
  inputs: { sets: 'f32', leader: 'f32' },
  output: { shape: ({ sets }) => sets },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = sets_shape.y;
  output[index] = sets[min(u32(max(leader[index / n], 0.0)), sets_shape.x - 1u) * n + index % n];
}`,
  ref({ sets, leader }, _, out) {
    const [H = 0, n = 0] = sets.shape;
    out.forEach((_, i) => {
      out[i] = sets.data[Math.min(Math.max(Math.trunc(leader.data[Math.floor(i / n)]), 0), H - 1) * n + (i % n)];
    });
  },
});
