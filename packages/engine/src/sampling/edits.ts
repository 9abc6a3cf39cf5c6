import { KvError } from '@kv/core';
import type { LogitBias } from './options.ts';

/** How bias and penalties change logits: number i of `ids` by the four numbers from 4 i of `changes`. */
export interface LogitEdits {
  readonly ids: Uint32Array;
  /** A bias that is added; factors of a negative sum and of another; what is subtracted in the end. */
  readonly changes: Float32Array;
}

/** Numbers of `changes` for one id. */
export const CHANGES = 4;

/** Bias and penalties of one answer, by id, as its tokens come. */
export class Edits implements LogitEdits {
  #ids = new Uint32Array(64);
  #changes = new Float32Array(64 * CHANGES);
  readonly #places = new Map<number, number>();
  readonly #counts = new Map<number, number>();
  readonly #penalties: Penalties;

  constructor(bias: LogitBias, penalties: Penalties, prompt: Iterable<number>) {
    this.#penalties = penalties;
    for (const [id, by] of Object.entries(bias)) if (by !== 0) this.#changes[this.#at(Number(id))] = by;
    if (penalties.repetitionPenalty !== 1) for (const id of prompt) this.#repeated(id);
  }

  get ids(): Uint32Array {
    return this.#ids.subarray(0, this.#places.size);
  }

  get changes(): Float32Array {
    return this.#changes.subarray(0, this.#places.size * CHANGES);
  }

  /** Counts a token of the answer. */
  accept(id: number): void {
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = this.#penalties;
    if (repetitionPenalty !== 1) this.#repeated(id);
    if (frequencyPenalty === 0 && presencePenalty === 0) return;
    const count = (this.#counts.get(id) ?? 0) + 1;
    this.#counts.set(id, count);
    const at = this.#at(id);
    this.#changes[at + 3] = frequencyPenalty * count + presencePenalty;
  }

  #repeated(id: number): void {
    const at = this.#at(id),
      { repetitionPenalty: p } = this.#penalties;
    [this.#changes[at + 1], this.#changes[at + 2]] = [p, 1 / p];
  }

  /** Returns where the numbers of an id lie, which change nothing at first. */
  #at(id: number): number {
    const known = this.#places.get(id);
    if (known !== undefined) return known * CHANGES;
    const place = this.#places.size;
    if (place === this.#ids.length) {
      const [ids, changes] = [this.#ids, this.#changes];
      this.#ids = new Uint32Array(2 * place);
      this.#changes = new Float32Array(2 * place * CHANGES);
      this.#ids.set(ids);
      this.#changes.set(changes);
    }
    this.#places.set(id, place);
    this.#ids[place] = id;
    this.#changes.set([0, 1, 1, 0], place * CHANGES);
    return place * CHANGES;
  }
}
/** The penalties of `SAMPLING`. */
export interface Penalties {
  readonly repetitionPenalty: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
}

/**
 * Writes logits to `to` with -Infinity for ids that may not come, and with edits, each step rounded to f32.
 *
 * @throws KvError if no id may come, or for an edit of an id beyond the logits
 */
export function editLogits(
  logits: Float32Array,
  { allowed, edits }: { readonly allowed?: Int32Array | undefined; readonly edits?: LogitEdits | undefined },
  to: Float32Array,
): void {
  const vocab = logits.length;
  if (edits) expectBiased(edits.ids, vocab);
  if (!allowed) to.set(logits);
  else {
    expectAny(allowed, vocab);
    for (let i = 0; i < vocab; i++) to[i] = isAllowed(allowed, i) ? logits[i] : -Infinity;
  }
  for (let i = 0; edits && i < edits.ids.length; i++) {
    const id = edits.ids[i],
      at = i * CHANGES,
      biased = Math.fround(to[id] + edits.changes[at]);
    to[id] = Math.fround(biased * edits.changes[at + (biased < 0 ? 1 : 2)]) - edits.changes[at + 3];
  }
}

/** Whether an id may come. */
export const isAllowed = (allowed: Int32Array, id: number): boolean =>
  id >> 5 < allowed.length && ((allowed[id >> 5] >>> (id & 31)) & 1) === 1;

/** @throws KvError if no id below `vocab` may come */
export function expectAny(allowed: Int32Array, vocab: number): void {
  const words = Math.min(allowed.length, vocab >> 5);
  for (let i = 0; i < words; i++) if (allowed[i] !== 0) return;
  if (words < allowed.length && (allowed[words] & ((1 << (vocab & 31)) - 1)) !== 0) return;
  throw new KvError(
    'grammar',
    `allows none of the model's ${vocab} tokens here, not even an end: look at its vocabulary, or at what it accepted`,
  );
}

/** @throws KvError for biases of an id that is not below `vocab` */
export const expectBias = (bias: LogitBias | undefined, vocab: number): void =>
  expectBiased(Object.keys(bias ?? {}).map(Number), vocab);

/** @throws KvError for an edited id that is not below `vocab` */
export function expectBiased(ids: Iterable<number>, vocab: number): void {
  for (const id of ids)
    if (id >= vocab) throw new KvError('logitBias', `must be for token ids below ${vocab}, got ${id}`);
}
