import { kernel } from '@kv/core';

/** Retrievals that one field of codes holds: two bits each, exact in f32. */
export const PER_FIELD = 12;

/**
 * 1 + the step that retrieved the set of the most recent query of the block whose cosine to the newest query is above
 * `threshold`; 0 if there is none.
 *
 * @remarks `query` `[H, w, d]` (the last of which is compared), `past` `[H, s d]`, `owners` `[H, s]`, 1 + the step that
 * retrieved each step's set. Where `any` is 0, only queries that retrieved are compared. Output f32 `[H, 1]`. O(H s d),
 * no key is read.
 */
export const matching = kernel({
  id: 'cis-matching',
  inputs: { query: 'f32', past: 'f32', owners: 'f32' },
  params: { now: 'u32', threshold: 'f32', any: 'u32' },
  per: 'row',
  output: { shape: ({ query }) => [query[0], 1] },
  wgsl: /* wgsl */ `
fn run(h: u32) {
  let d = query_shape.z;
  let steps = owners_shape.y;
  let q = (h * query_shape.y + query_shape.y - 1u) * d;
  output[h] = 0.0;
  if (past_shape.y != steps * d) { return; }
  for (var j = params.now; j > 0u; j--) {
    let owner = owners[h * steps + j - 1u];
    if (params.any == 0u && owner != f32(j)) { continue; }
    var ab = 0.0; var aa = 0.0; var bb = 0.0;
    for (var c = 0u; c < d; c++) { let x = query[q + c]; let y = past[h * past_shape.y + (j - 1u) * d + c]; ab += x * y; aa += x * x; bb += y * y; }
    if (ab > params.threshold * sqrt(aa * bb)) { output[h] = owner; return; }
  }
}`,
  ref({ query, past, owners }, { now, threshold, any }, out) {
    const [H = 0, w = 0, d = 0] = query.shape,
      steps = owners.shape[1],
      width = past.shape[1];
    if (width !== steps * d) return;
    for (let h = 0; h < H; h++)
      for (let j = now; j > 0; j--) {
        const owner = owners.data[h * steps + j - 1];
        if (any === 0 && owner !== j) continue;
        let ab = 0,
          aa = 0,
          bb = 0;
        for (let c = 0; c < d; c++) {
          const x = query.data[(h * w + w - 1) * d + c],
            y = past.data[h * width + (j - 1) * d + c];
          ab += x * y;
          aa += x * x;
          bb += y * y;
        }
        if (ab > threshold * Math.sqrt(aa * bb)) {
          out[h] = owner;
          break;
        }
      }
  },
});

/**
 * Queries of the block with the newest one written at step `now`: `[H, s d]`. A previous value of another width counts
 * as 0.
 */
export const remember = kernel({
  id: 'cis-remember',
  inputs: { query: 'f32', past: 'f32' },
  params: { now: 'u32', steps: 'u32' },
  output: { shape: ({ query }, { steps }) => [query[0], steps * query[2]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let d = query_shape.z; let width = params.steps * d;
  let h = index / width; let c = index % width;
  if (c / d == params.now) { output[index] = query[(h * query_shape.y + query_shape.y - 1u) * d + c % d]; return; }
  output[index] = 0.0;
  if (past_shape.y == width) { output[index] = past[index]; }
}`,
  ref({ query, past }, { now }, out) {
    const [H = 0, w = 0, d = 0] = query.shape,
      width = out.length / Math.max(1, H);
    if (past.shape[1] === width) out.set(past.data);
    for (let h = 0; h < H; h++) out.set(query.data.subarray((h * w + w - 1) * d, (h * w + w) * d), h * width + now * d);
  },
});

/** Code 0 .. 3 of every slot in the retrieval that `match` names (1 + its step), if this field holds it; else 0. */
export const decode = kernel({
  id: 'cis-decode',
  inputs: { field: 'f32', found: 'f32' },
  params: { first: 'u32' },
  ragged: 'field',
  output: { shape: ({ field }) => field },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let j = i32(found[index / field_shape.y]) - 1 - i32(params.first);
  output[index] = 0.0;
  if (j >= 0 && j < ${PER_FIELD}) { output[index] = f32((u32(field[index]) >> u32(2 * j)) & 3u); }
}`,
  ref({ field, found }, { first }, out) {
    const n = field.shape[1];
    out.forEach((_, index) => {
      const j = found.data[Math.floor(index / n)] - 1 - first;
      if (j >= 0 && j < PER_FIELD) out[index] = (field.data[index] >> (2 * j)) & 3;
    });
  },
});

/**
 * The last vector of each query head's row, such as its KV head's keys, `[heads, 1, d]`; `counts` f32 `[G, 1]` is the number of slots of each. No
 * other key is read.
 */
export const newestKey = kernel({
  id: 'cis-newest-key',
  inputs: { keys: 'f32', counts: 'f32' },
  params: { heads: 'u32' },
  output: { shape: ({ keys }, { heads }) => [heads, 1, keys[2]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let d = keys_shape.z; let g = index / d / (params.heads / keys_shape.x);
  output[index] = keys[(g * keys_shape.y + u32(max(counts[g], 1.0)) - 1u) * d + index % d];
}`,
  ref({ keys, counts }, { heads }, out) {
    const [G = 1, n = 0, d = 0] = keys.shape;
    for (let h = 0; h < heads; h++) {
      const g = Math.floor((h * G) / heads),
        at = (g * n + Math.max(counts.data[g], 1) - 1) * d;
      out.set(keys.data.subarray(at, at + d), h * d);
    }
  },
});
