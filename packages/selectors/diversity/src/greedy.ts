import { kernel } from '@kv/core';
import { inner, plainProducts } from '@kv/core/shared';

/**
 * The order in which slots are picked: n for the first, n - 1 for the second, and so on until the budget is spent; 0
 * for what is left over.
 *
 * Forced slots are picked first, in order, then argmax of s_i - λ max(0, max cos(i, j)), the lower slot of equals,
 * never a banned one.
 *
 * @remarks `scores`, `forced`, `banned` f32 `[r, n]`, unit `signatures` f32 `[r', n, d]` with r' dividing r, `budgets`
 * f32 `[r, 1]`. One pass over the slots a pick: O(k n d) a row by one workgroup, and no memory but the output. The
 * host compares every slot with sixteen picks together, in f32; with newer ones, in f64, what would be the next.
 */
export const greedyOrder = kernel({
  id: 'diversity-greedy',
  inputs: { scores: 'f32', signatures: 'f32', forced: 'f32', banned: 'f32', budgets: 'f32' },
  params: { lambda: 'f32' },
  ragged: 'scores',
  output: { shape: ({ scores }) => scores },
  per: 'group',
  wgsl: /* wgsl */ `
var<workgroup> bounds: vec2<u32>; // valid slots, budget
// order of f32 numbers as u32, -0 and +0 the same
fn ordered(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if ((bits << 1u) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}
fn run(row: u32, lane: u32) {
  let n = scores_shape.y;
  let d = signatures_shape.z;
  let base = row * n;
  let vectors = row / (scores_shape.x / signatures_shape.x) * n;
  for (var i = lane; i < n; i += THREADS) { output[base + i] = 0.0; }
  if (lane == 0u) { bounds = vec2<u32>(scores_lengths[row], u32(max(budgets[row], 0.0))); }
  let known = workgroupUniformLoad(&bounds);
  let valid = known.x;
  var last = valid; // the slot picked last; valid: none yet
  for (var taken = 0u; taken < known.y; taken++) {
    var key = 0u;
    var place = valid;
    // each thread looks after every 256th slot
    for (var i = lane; i < valid; i += THREADS) {
      if (output[base + i] > 0.0) { continue; }
      if (last < valid) {
        var cosine = 0.0;
        for (var c = 0u; c < d; c++) { cosine += signatures[(vectors + i) * d + c] * signatures[(vectors + last) * d + c]; }
        output[base + i] = min(output[base + i], -max(cosine, 0.0));
      }
      var mine = 0u; // banned
      if (forced[base + i] != 0.0) { mine = 0xffffffffu; }
      else if (banned[base + i] == 0.0) { mine = ordered(scores[base + i] + params.lambda * output[base + i]); }
      if (mine > key) { key = mine; place = i; }
    }
    last = best(lane, key, place);
    if (last == valid) { break; }
    if (last % THREADS == lane) { output[base + last] = f32(n - taken); }
  }
  for (var i = lane; i < valid; i += THREADS) { output[base + i] = max(output[base + i], 0.0); }
}`,
  // of pick t the n - t slots that are left: a cosine, the larger of two, the score and its key
  operations({ scores, signatures, budgets }) {
    const [rows = 0, n = 0] = scores.shape,
      d = signatures.shape[2],
      picks = Array.from({ length: rows }, (_, r) => Math.min(n, budgets.data?.[r] ?? n));
    return picks.reduce((sum, k) => sum + ((k * (2 * n - k + 1)) / 2) * (2 * d + 6), 0);
  },
  ref({ scores, signatures, forced, banned, budgets }, { lambda }, out, lengths, products = plainProducts) {
    const [rows = 0, n = 0] = scores.shape,
      [groups = 1, , d = 0] = signatures.shape;
    for (let row = 0; row < rows; row++) {
      const base = row * n,
        valid = lengths[row],
        from = Math.floor((row * groups) / rows) * n * d,
        vectors = signatures.data.subarray(from, from + valid * d);
      const first: number[] = [],
        picks: number[] = [],
        open = new Tops(valid),
        likeness = new Float32Array(valid), // to the picks that every slot was compared with, of which there are `common`
        recent = new Float32Array(valid), // to `looked` picks behind those
        looked = new Uint8Array(valid),
        newest = new Float32Array(TOGETHER * d),
        cosines = new Float32Array(TOGETHER * valid);
      let common = 0;
      const worth = (i: number): number => scores.data[base + i] - lambda * Math.max(likeness[i], recent[i]);
      for (let i = 0; i < valid; i++)
        if (forced.data[base + i] !== 0) first.push(i);
        else if (banned.data[base + i] === 0) open.put(i, scores.data[base + i]);
      const pick = (i: number): void => {
        out[base + i] = n - picks.length;
        newest.set(vectors.subarray(i * d, (i + 1) * d), (picks.length - common) * d);
        picks.push(i);
        open.remove(i);
        if (picks.length < common + TOGETHER) return;
        common = picks.length;
        products.multiply(vectors, newest, d, cosines);
        for (let j = 0, at = 0; j < valid; j++) {
          let most = likeness[j];
          for (const end = at + TOGETHER; at < end; at++) if (cosines[at] > most) most = cosines[at];
          likeness[j] = most;
        }
        recent.fill(0);
        looked.fill(0);
        open.again(worth);
      };
      for (const budget = Math.floor(budgets.data[row]); picks.length < budget; ) {
        if (picks.length < first.length) {
          pick(first[picks.length]);
          continue;
        }
        const i = open.top();
        if (i < 0) break;
        if (common + looked[i] === picks.length) {
          pick(i);
          continue;
        }
        for (; common + looked[i] < picks.length; looked[i]++)
          recent[i] = Math.max(recent[i], inner(vectors, i * d, newest, looked[i] * d, d));
        open.put(i, worth(i));
      }
    }
  },
});

/** Picks that all slots are compared with together; what comes to the top is compared with newer ones before. */
const TOGETHER = 16;

/** Numbers by place, of which the largest is asked for again and again; ties to the lower place. */
class Tops {
  readonly #worth: Float64Array;
  readonly #in: Uint8Array;
  /** The best place of every `SPAN`, or -1. */
  readonly #best: Int32Array;

  constructor(n: number) {
    this.#worth = new Float64Array(n);
    this.#in = new Uint8Array(n);
    this.#best = new Int32Array(Math.ceil(n / SPAN)).fill(-1);
  }

  put(place: number, worth: number): void {
    this.#worth[place] = worth;
    this.#in[place] = 1;
    this.#look(Math.floor(place / SPAN));
  }

  /** All numbers anew. */
  again(worth: (place: number) => number): void {
    for (let i = 0; i < this.#in.length; i++) if (this.#in[i] === 1) this.#worth[i] = worth(i);
    for (let span = 0; span < this.#best.length; span++) this.#look(span);
  }

  remove(place: number): void {
    this.#in[place] = 0;
    this.#look(Math.floor(place / SPAN));
  }

  top(): number {
    let best = -1;
    for (const place of this.#best)
      if (place >= 0 && (best < 0 || this.#worth[place] > this.#worth[best])) best = place;
    return best;
  }

  #look(span: number): void {
    let best = -1;
    for (let i = span * SPAN; i < Math.min(this.#in.length, (span + 1) * SPAN); i++)
      if (this.#in[i] === 1 && (best < 0 || this.#worth[i] > this.#worth[best])) best = i;
    this.#best[span] = best;
  }
}
const SPAN = 64;
