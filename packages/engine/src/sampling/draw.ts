import { greedy } from './greedy.ts';
import type { SAMPLING } from './options.ts';
import type { ResolvedOptions } from '@kv/core';

/** What a draw goes by. */
type Selection = Pick<ResolvedOptions<typeof SAMPLING>, 'temperature' | 'topK' | 'topP' | 'minP'>;

/** Bits of each digit of a logit's order, the highest first. */
const DIGITS = [11, 11, 10] as const;

/**
 * Draws ids, one at a time, with probability proportional to exp(logit / temperature) among those that `topK`, `topP` and `minP` leave.
 * Nothing is sorted: the last logit that stays is found digit by digit of its order, in three passes. Holds 16 bytes
 * for each id of the vocabulary.
 */
class Drawer {
  #ids = new Uint32Array(0);
  #weights = new Float64Array(0);
  #orders = new Uint32Array(0);
  readonly #bins = new Float64Array(2 ** DIGITS[0]);

  draw(logits: Float32Array, { temperature, topK, topP, minP }: Selection, share: number): number {
    const max = logits[greedy(logits)];
    this.#resize(logits.length);
    const [ids, weights] = [this.#ids, this.#weights];
    let count = 0;
    for (let i = 0; i < logits.length; i++) if (logits[i] > -Infinity) ids[count++] = i;
    const selects = (topK > 0 && topK < count) || topP < 1;
    if (selects) this.#order(logits, count);
    if (topK > 0 && topK < count) count = this.#largest(count, topK, false);
    let mass = 0;
    for (let i = 0; i < count; i++) mass += weights[i] = Math.exp((logits[ids[i]] - max) / temperature);
    if (topP < 1) {
      count = this.#largest(count, topP * mass, true);
      mass = total(weights, count);
    }
    if (minP > 0) {
      for (let i = 0; i < count; i++) if (weights[i] < minP) weights[i] = 0;
      mass = total(weights, count);
    }
    let left = share * mass,
      drawn = 0;
    for (let i = 0; i < count; i++) {
      if (weights[i] === 0) continue;
      drawn = ids[i]; // the last with any weight where rounding carries the draw beyond all
      if ((left -= weights[i]) < 0) break;
    }
    return drawn;
  }

  #resize(vocab: number): void {
    if (this.#ids.length >= vocab) return;
    this.#ids = new Uint32Array(vocab);
    this.#weights = new Float64Array(vocab);
    this.#orders = new Uint32Array(vocab);
  }

  /** Writes the order of the candidates' logits, as whole numbers: -0 and 0 are the same. */
  #order(logits: Float32Array, count: number): void {
    const bits = new Uint32Array(logits.buffer, logits.byteOffset, logits.length);
    for (let i = 0; i < count; i++) {
      const of = bits[this.#ids[i]];
      this.#orders[i] = of << 1 === 0 ? 2 ** 31 : of >>> 31 === 1 ? ~of : of | (1 << 31);
    }
  }

  /**
   * Keeps the fewest of the largest candidates whose number, or weights, come to `target`, of equal ones the first.
   * Returns how many stay, in their order.
   */
  #largest(count: number, target: number, weighted: boolean): number {
    const [ids, weights, orders, bins] = [this.#ids, this.#weights, this.#orders, this.#bins];
    let border = 0,
      known = 0,
      above = 0,
      shift = 32;
    for (const bits of DIGITS) {
      shift -= bits;
      bins.fill(0);
      const digits = 2 ** bits - 1;
      for (let i = 0; i < count; i++)
        if ((orders[i] & known) >>> 0 === border) bins[(orders[i] >>> shift) & digits] += weighted ? weights[i] : 1;
      let last = 0,
        over = above;
      for (let digit = digits; digit >= 0; digit--) {
        if (bins[digit] === 0) continue;
        [last, above] = [digit, over];
        over += bins[digit];
        if (over >= target) break;
      }
      border = (border | (last << shift)) >>> 0;
      known = (known | (digits << shift)) >>> 0;
    }
    let kept = 0;
    for (let i = 0; i < count; i++) {
      if (orders[i] < border || (orders[i] === border && above >= target)) continue;
      if (orders[i] === border) above += weighted ? weights[i] : 1;
      [ids[kept], weights[kept], orders[kept]] = [ids[i], weights[i], orders[i]];
      kept++;
    }
    return kept;
  }
}

function total(weights: Float64Array, count: number): number {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += weights[i];
  return sum;
}

/** One for all answers, since a draw has ended when it returns. */
const drawer = new Drawer();

/**
 * Returns the id at `share`, in [0, 1), of the probability that may be drawn from logits `[vocab]`, ids ascending.
 * @throws KvError for logits that `greedy` refuses
 */
export const draw: Drawer['draw'] = (logits, by, share) => drawer.draw(logits, by, share);
