import type { Kernel } from '@kv/core';

/** Less mass than this left is none: half an f32 ulp of 1. */
const FLOOR = 2 ** -24;

/**
 * The order in which slots of each KV head are evicted: -n for the first, 1 - n for the second, and so on until the budget is met; 0 stays.
 * Behind the n slots of a row stands what the loop carries: for each query head Σ_E h_i (o - v_i), d numbers, and Σ_E h_i.
 *
 * Banned slots (mask -1) go first, forced ones (mask 1) never; then always the slot whose joint error with what is gone is least, as a
 * mean over the query heads of the group, the higher slot of equals.
 *
 * @remarks Simplex `weights` f32 `[W, n]`, their `outputs` `[W, d]`, `values` `[G, n, d]`, `mask` `[r, n]`, `budgets` `[r, 1]`, r dividing W and a multiple of G.
 * Output f32 `[r, n + (W / r)(d + 1)]`. O((n - k) n d) for each query head, no n x n matrix.
 */
export const evictionOrder: Kernel = {
  id: 'joint-eviction-greedy',
  inputs: { weights: 'f32', outputs: 'f32', values: 'f32', mask: 'f32', budgets: 'f32' }, params: {}, ragged: 'mask',
  output: { dtype: 'f32', shape: ({ weights: w, values: v, mask: m }) => [m![0]!, m![1]! + (w![0]! / Math.max(1, m![0]!)) * (v![2]! + 1)] },
  per: 'row',
  wgsl: /* wgsl */ `
fn run(row: u32) {
  let n = mask_shape.y;
  let d = values_shape.z;
  let heads = weights_shape.x / mask_shape.x;
  let width = n + heads * (d + 1u);
  let base = row * width;
  let vectors = row / (mask_shape.x / values_shape.x) * n;
  let valid = mask_lengths[row];
  for (var i = 0u; i < width; i++) { output[base + i] = 0.0; }
  let budget = min(u32(max(budgets[row], 0.0)), valid);
  for (var gone = 0u; gone < valid - budget; gone++) {
    var worst = valid;
    var least = 0.0;
    for (var j = 0u; j < valid; j++) {
      if (output[base + j] < 0.0 || mask[row * n + j] > 0.0) { continue; }
      if (mask[row * n + j] < 0.0) { worst = j; break; }
      var error = 0.0;
      for (var r = 0u; r < heads; r++) {
        let head = row * heads + r;
        let sum = base + n + r * (d + 1u);
        let h = weights[head * n + j];
        let rest = 1.0 - output[sum + d] - h;
        var square = 0.0;
        for (var c = 0u; c < d; c++) { let x = output[sum + c] + h * (outputs[head * d + c] - values[(vectors + j) * d + c]); square += x * x; }
        error += select(1e30, sqrt(square) / rest, rest > ${FLOOR});
      }
      if (worst == valid || error <= least) { worst = j; least = error; }
    }
    if (worst == valid) { return; }
    output[base + worst] = f32(gone) - f32(n);
    for (var r = 0u; r < heads; r++) {
      let head = row * heads + r;
      let sum = base + n + r * (d + 1u);
      let h = weights[head * n + worst];
      for (var c = 0u; c < d; c++) { output[sum + c] += h * (outputs[head * d + c] - values[(vectors + worst) * d + c]); }
      output[sum + d] += h;
    }
  }
}`,
  ref({ weights, outputs, values, mask, budgets }, _params, out, lengths) {
    const [rows = 0, n = 0] = mask!.shape, [groups = 1, , d = 0] = values!.shape, heads = weights!.shape[0]! / Math.max(1, rows), width = n + heads * (d + 1);
    for (let row = 0; row < rows; row++) {
      const base = row * width, v = Math.floor((row * groups) / rows) * n * d, valid = lengths[row]!;
      const sums = Array.from({ length: heads }, () => new Float64Array(d)), masses = new Float64Array(heads);
      /** Σ_E h_i (o - v_i) of head r with slot j in E too. */
      const moved = (r: number, j: number, c: number): number => sums[r]![c]! + weights!.data[(row * heads + r) * n + j]! * (outputs!.data[(row * heads + r) * d + c]! - values!.data[v + j * d + c]!);
      const errorWith = (j: number): number => {
        let error = 0;
        for (let r = 0; r < heads; r++) {
          const rest = 1 - masses[r]! - weights!.data[(row * heads + r) * n + j]!;
          let square = 0;
          for (let c = 0; c < d; c++) square += moved(r, j, c) ** 2;
          error += rest > FLOOR ? Math.sqrt(square) / rest : 1e30;
        }
        return error;
      };
      for (let gone = 0; gone < valid - Math.floor(budgets!.data[row]!); gone++) {
        let worst = -1, least = 0;
        for (let j = 0; j < valid; j++) {
          if (out[base + j]! < 0 || mask!.data[row * n + j]! > 0) continue;
          if (mask!.data[row * n + j]! < 0) { worst = j; break; }
          const error = errorWith(j);
          if (worst < 0 || error <= least) [worst, least] = [j, error];
        }
        if (worst < 0) break;
        out[base + worst] = gone - n;
        for (let r = 0; r < heads; r++) {
          for (let c = 0; c < d; c++) sums[r]![c] = moved(r, worst, c);
          masses[r]! += weights!.data[(row * heads + r) * n + worst]!;
        }
      }
      sums.forEach((sum, r) => { out.set(sum, base + n + r * (d + 1)); out[base + n + r * (d + 1) + d] = masses[r]!; });
    }
  },
};

/** The first columns of `x`, as many as `like` has, ragged as it is. */
export const firstColumns: Kernel = {
  id: 'first-columns', inputs: { x: 'f32', like: 'f32' }, params: {}, ragged: 'like', per: 'element',
  output: { dtype: 'f32', shape: ({ like }) => like! },
  wgsl: /* wgsl */ `fn run(index: u32) { output[index] = x[index / like_shape.y * x_shape.y + index % like_shape.y]; }`,
  ref({ x, like }, _params, out) {
    const [rows = 0, n = 0] = like!.shape, width = x!.shape[1]!;
    for (let r = 0; r < rows; r++) out.set(x!.data.subarray(r * width, r * width + n), r * n);
  },
};
