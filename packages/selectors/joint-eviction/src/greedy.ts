import { kernel } from '@kv/core';

/** Less mass than this left is none: half an f32 ulp of 1. */
const FLOOR = 2 ** -24;

/**
 * The order in which slots of each KV head are evicted: -n for the first, 1 - n for the second, and so on until the
 * budget is met; 0 stays. Behind the n slots of a row stands what the loop carries: for each query head Σ_E h_i (o -
 * v_i), d numbers, and Σ_E h_i.
 *
 * Banned slots (mask -1) go first, forced ones (mask 1) never; then always the slot whose joint error with what is gone
 * is least, as a mean over the query heads of the group, the higher slot of equals.
 *
 * @remarks Simplex `weights` f32 `[W, n]`, their `outputs` `[W, d]`, `values` `[G, n, d]`, `mask` `[r, n]`, `budgets`
 * `[r, 1]`, r dividing W and a multiple of G. Output f32 `[r, n + (W / r)(d + 1)]`. O((n - k) n d) for each query head, no n x n matrix.
 */
export const evictionOrder = kernel({
  id: 'joint-eviction-greedy',
  inputs: { weights: 'f32', outputs: 'f32', values: 'f32', mask: 'f32', budgets: 'f32' },
  ragged: 'mask',
  output: {
    shape: ({ weights: w, values: v, mask: m }) => [m[0], m[1] + (w[0] / Math.max(1, m[0])) * (v[2] + 1)],
  },
  per: 'group',
  wgsl: /* wgsl */ `
const NONE = 0xffffffffu;
var<workgroup> bounds: vec2<u32>; // valid slots, slots that leave
fn run(row: u32, lane: u32) {
  let n = mask_shape.y;
  let d = values_shape.z;
  let heads = weights_shape.x / mask_shape.x;
  let width = n + heads * (d + 1u);
  let base = row * width;
  let vectors = row / (mask_shape.x / values_shape.x) * n;
  for (var i = lane; i < width; i += THREADS) { output[base + i] = 0.0; }
  if (lane == 0u) { let size = mask_lengths[row]; bounds = vec2<u32>(size, size - min(u32(max(budgets[row], 0.0)), size)); }
  let known = workgroupUniformLoad(&bounds);
  for (var gone = 0u; gone < known.y; gone++) {
    storageBarrier(); // the sums are other threads'
    var key = 0u;
    var place = NONE;
    // each thread looks after every 256th slot: the lowest banned one, or the least error, of equals the higher slot
    for (var j = lane; j < known.x; j += THREADS) {
      if (output[base + j] < 0.0 || mask[row * n + j] > 0.0) { continue; }
      if (mask[row * n + j] < 0.0) { key = NONE; place = j; break; }
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
      let mine = 0x7fffffffu - bitcast<u32>(error); // no error is negative
      if (mine >= key) { key = mine; place = 0x7fffffffu - j; }
    }
    let found = best(lane, key, place);
    if (found == NONE) { return; }
    let worst = select(found, 0x7fffffffu - found, found >= 0x40000000u);
    if (worst % THREADS == lane) { output[base + worst] = f32(gone) - f32(n); }
    for (var i = lane; i < heads * (d + 1u); i += THREADS) {
      let head = row * heads + i / (d + 1u);
      let c = i % (d + 1u);
      let h = weights[head * n + worst];
      if (c == d) { output[base + n + i] += h; } else { output[base + n + i] += h * (outputs[head * d + c] - values[(vectors + worst) * d + c]); }
    }
  }
}`,
  // of eviction t the n - t slots that are left: for each query head an error over d channels
  operations({ weights, values, mask, budgets }) {
    const [rows = 0, n = 0] = mask.shape,
      d = values.shape[2],
      heads = weights.shape[0] / Math.max(1, rows),
      gone = Array.from({ length: rows }, (_, r) => n - Math.min(n, budgets.data?.[r] ?? 0));
    return gone.reduce((sum, k) => sum + ((k * (2 * n - k + 1)) / 2) * heads * (5 * d + 5), 0);
  },
  ref({ weights, outputs, values, mask, budgets }, _, out, lengths) {
    const [rows = 0, n = 0] = mask.shape,
      [groups = 1, , d = 0] = values.shape,
      each = weights.shape[0] / Math.max(1, rows),
      width = n + each * (d + 1);
    for (let row = 0; row < rows; row++) {
      const base = row * width,
        valid = lengths[row],
        v = Math.floor((row * groups) / rows) * n * d,
        vectors = values.data.subarray(v, v + valid * d);
      const heads = Array.from({ length: each }, (_, r) => {
        const head = row * each + r;
        return new Leaving(weights.data.subarray(head * n), outputs.data.subarray(head * d, (head + 1) * d), vectors);
      });
      for (let gone = 0; gone < valid - Math.floor(budgets.data[row]); gone++) {
        let worst = -1,
          least = 0;
        for (let j = 0; j < valid; j++) {
          if (out[base + j] < 0 || mask.data[row * n + j] > 0) continue;
          if (mask.data[row * n + j] < 0) {
            worst = j;
            break;
          }
          let error = 0;
          for (const head of heads) error += head.error(j);
          if (worst < 0 || error <= least) [worst, least] = [j, error];
        }
        if (worst < 0) break;
        out[base + worst] = gone - n;
        for (const head of heads) head.leave(worst);
      }
      heads.forEach(({ sum, mass }, r) => {
        out.set(sum, base + n + r * (d + 1));
        out[base + n + r * (d + 1) + d] = mass;
      });
    }
  },
});

/** A query head with weights h and output o, whose slots leave one after the other. */
class Leaving {
  /** Σ_E h_i (o - v_i). */
  readonly sum: Float64Array;
  /** Σ_E h_i. */
  mass = 0;
  readonly #h: ArrayLike<number>;
  /** h_i (o - v_i), `[n, d]`. */
  readonly #moves: Float64Array;
  /** Squares of the lengths of `sum` and of every move. */
  #square = 0;
  readonly #squares: Float64Array;

  constructor(h: ArrayLike<number>, o: Float32Array, v: Float32Array) {
    const d = o.length,
      n = v.length / d;
    this.#h = h;
    this.sum = new Float64Array(d);
    this.#moves = new Float64Array(v.length);
    for (let i = 0, at = 0; i < n; i++) for (let c = 0; c < d; c++, at++) this.#moves[at] = h[i] * (o[c] - v[at]);
    this.#squares = Float64Array.from({ length: n }, (_, i) => dot(this.#moves, i * d, this.#moves, i * d, d));
  }

  /** How far the output moves with slot j gone too. */
  error(j: number): number {
    const d = this.sum.length,
      rest = 1 - this.mass - this.#h[j];
    if (!(rest > FLOOR)) return 1e30;
    const square = this.#square + 2 * dot(this.sum, 0, this.#moves, j * d, d) + this.#squares[j];
    return Math.sqrt(Math.max(0, square)) / rest;
  }

  leave(j: number): void {
    const { sum } = this,
      d = sum.length;
    for (let c = 0; c < d; c++) sum[c] += this.#moves[j * d + c];
    this.mass += this.#h[j];
    this.#square = dot(sum, 0, sum, 0, d);
  }
}

/** The inner product of d numbers: two sums, neither of which waits for the other. */
function dot(a: Float64Array, i: number, b: Float64Array, j: number, d: number): number {
  let even = 0,
    odd = 0,
    c = 0;
  for (; c + 1 < d; c += 2) {
    even += a[i + c] * b[j + c];
    odd += a[i + c + 1] * b[j + c + 1];
  }
  return even + odd + (c < d ? a[i + c] * b[j + c] : 0);
}

/** The first columns of `x`, as many as `like` has, ragged as it is. */
export const firstColumns = kernel({
  id: 'first-columns',
  inputs: { x: 'f32', like: 'f32' },
  ragged: 'like',
  output: { shape: ({ like }) => like },
  wgsl: /* wgsl */ `fn run(index: u32) { output[index] = x[index / like_shape.y * x_shape.y + index % like_shape.y]; }`,
  ref({ x, like }, _, out) {
    const [rows = 0, n = 0] = like.shape,
      width = x.shape[1];
    for (let r = 0; r < rows; r++) out.set(x.data.subarray(r * width, r * width + n), r * n);
  },
});
