import { kernel } from '@kv/core';
import { plainProducts } from '@kv/core/shared';
import type { Products } from '@kv/core';

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
 * `[r, 1]`, r dividing W and a multiple of G. Output f32 `[r, n + (W / r)(d + 1)]`. O((n - k) n d) for each query head, no n x n
 * matrix. The host holds the inner products of the values of a row, up to 64 MiB of them, in f32: O(n² d) a KV head and
 * O((n - k) n) a query head; its errors are off by about 1e-6 of the squared lengths of h (v - their mean).
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
  ref({ weights, outputs, values, mask, budgets }, _, out, lengths, products = plainProducts) {
    const [rows = 0, n = 0] = mask.shape,
      [groups = 1, , d = 0] = values.shape,
      each = weights.shape[0] / Math.max(1, rows),
      width = n + each * (d + 1);
    for (let row = 0; row < rows; row++) {
      const base = row * width,
        valid = lengths[row],
        v = Math.floor((row * groups) / rows) * n * d,
        held = centred(values.data.subarray(v, v + valid * d), d),
        nearness = nearnessOf(held.vectors, d, products),
        errors = new Float64Array(valid),
        open = new Uint32Array(valid); // what may leave, banned slots first
      let count = 0;
      for (const banned of [true, false])
        for (let j = 0; j < valid; j++) {
          const m = mask.data[row * n + j];
          if (banned ? m < 0 : m === 0) open[count++] = j;
        }
      const heads = Array.from({ length: each }, (_, r) => {
        const head = row * each + r;
        return new Leaving(
          weights.data.subarray(head * n, head * n + valid),
          outputs.data.subarray(head * d, (head + 1) * d),
          held,
        );
      });
      for (const head of heads) head.addErrors(open, count, errors);
      for (let gone = 0; gone < valid - Math.floor(budgets.data[row]) && count > 0; gone++) {
        let at = 0;
        if (mask.data[row * n + open[0]] === 0) for (let i = 1; i < count; i++) if (errors[i] <= errors[at]) at = i;
        const worst = open[at];
        out[base + worst] = gone - n;
        open.copyWithin(at, at + 1, count);
        count--;
        const near = nearness(worst);
        errors.fill(0, 0, count);
        for (const head of heads) head.leave(worst, near, open, count, errors);
      }
      heads.forEach(({ sum, mass }, r) => {
        out.set(sum, base + n + r * (d + 1));
        out[base + n + r * (d + 1) + d] = mass;
      });
    }
  },
});

/** Vectors less their mean, so that inner products of what lies between them do not cancel. */
interface Centred {
  readonly vectors: Float32Array;
  readonly mean: Float64Array;
}
function centred(v: Float32Array, d: number): Centred {
  const mean = new Float64Array(d),
    vectors = new Float32Array(v.length);
  for (let at = 0; at < v.length; at += d) for (let c = 0; c < d; c++) mean[c] += (d * v[at + c]) / v.length;
  for (let at = 0; at < v.length; at += d) for (let c = 0; c < d; c++) vectors[at + c] = v[at + c] - mean[c];
  return { vectors, mean };
}

/** Inner products of all pairs that are held at once, 64 MiB. */
const PAIRS = 2 ** 24;
/** The inner products of a vector with all of them: of few enough vectors computed together, of more when asked for. */
function nearnessOf(x: Float32Array, d: number, products: Products): (j: number) => Float32Array {
  const n = x.length / d;
  if (n * n > PAIRS) {
    const own = new Float32Array(n);
    return (j) => {
      products.dots(x.subarray(j * d, (j + 1) * d), x, d, own);
      return own;
    };
  }
  const all = new Float32Array(n * n);
  products.multiply(x, x, d, all);
  return (j) => all.subarray(j * n, (j + 1) * n);
}

/** A query head with weights h and output o, whose slots leave one after the other. */
class Leaving {
  /** Σ_E h_i (o - v_i). */
  readonly sum: Float64Array;
  /** Σ_E h_i. */
  mass = 0;
  readonly #h: Float32Array;
  readonly #o: Float64Array;
  readonly #v: Float32Array;
  /** o·v_j, and o·o. */
  readonly #outward: Float64Array;
  readonly #size: number;
  /** Squares of the lengths of `sum` and of every move h_j (o - v_j), and the inner product of `sum` with each move. */
  #square = 0;
  readonly #squares: Float64Array;
  readonly #along: Float64Array;

  constructor(h: Float32Array, o: Float32Array, { vectors: v, mean }: Centred) {
    const d = o.length,
      n = h.length;
    [this.#h, this.#v, this.sum, this.#along] = [h, v, new Float64Array(d), new Float64Array(n)];
    this.#o = Float64Array.from(o, (x, c) => x - mean[c]);
    this.#size = this.#o.reduce((sum, x) => sum + x * x, 0);
    [this.#outward, this.#squares] = [new Float64Array(n), new Float64Array(n)];
    for (let j = 0, at = 0; j < n; j++) {
      let [outward, square] = [0, 0];
      for (let c = 0; c < d; c++, at++) {
        outward += this.#o[c] * v[at];
        square += (this.#o[c] - v[at]) ** 2;
      }
      this.#outward[j] = outward;
      this.#squares[j] = h[j] * h[j] * square;
    }
  }

  /** Adds how far the output moves with each of `count` slots gone too. */
  addErrors(slots: Uint32Array, count: number, errors: Float64Array): void {
    this.#follow(0, 0, undefined, slots, count, errors);
  }

  /** Slot w leaves, whose inner products with all are `near`; then as `addErrors`. */
  leave(w: number, near: Float32Array, slots: Uint32Array, count: number, errors: Float64Array): void {
    const { sum } = this,
      d = sum.length,
      h = this.#h[w];
    for (let c = 0; c < d; c++) sum[c] += h * (this.#o[c] - this.#v[w * d + c]);
    this.mass += h;
    this.#square = sum.reduce((all, x) => all + x * x, 0);
    this.#follow(h, this.#size - this.#outward[w], near, slots, count, errors);
  }

  /** `sum` became more by h (o - v_w): (o - v_w)(o - v_j) is o·o - o·v_w - o·v_j + v_w·v_j. */
  #follow(
    by: number,
    size: number,
    near: Float32Array | undefined,
    slots: Uint32Array,
    count: number,
    errors: Float64Array,
  ): void {
    const h = this.#h,
      along = this.#along,
      outward = this.#outward,
      squares = this.#squares,
      square = this.#square,
      left = 1 - this.mass;
    for (let i = 0; i < count; i++) {
      const j = slots[i],
        own = h[j],
        rest = left - own;
      if (near) along[j] += by * own * (size - outward[j] + near[j]);
      const moved = square + 2 * along[j] + squares[j];
      errors[i] += rest > FLOOR ? (moved > 0 ? Math.sqrt(moved) / rest : 0) : 1e30;
    }
  }
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
