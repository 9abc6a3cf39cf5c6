import { KvError } from '@kv/core';
import type { Instance, Vector } from './types.ts';
import type { ReadVocabulary } from './vocabulary.ts';

/** What xgrammar's own class keeps to itself: masks without waiting. */
interface MatcherHandle {
  AcceptToken(id: number, verbose: boolean): boolean;
  GetNextTokenBitmask(size: number): Vector;
  delete(): void;
}
type MatcherClass = new (
  compiled: object,
  stops: Vector | undefined,
  endsWithoutStop: boolean,
  rollback: number,
) => MatcherHandle;

/** What one answer may say next. */
export class Matcher {
  readonly #xgrammar: Instance;
  readonly #vocabulary: ReadVocabulary;
  #last: number | undefined;
  #handle: MatcherHandle | undefined;
  #mask: Int32Array | undefined;

  constructor(xgrammar: Instance, pointer: number, vocabulary: ReadVocabulary) {
    [this.#xgrammar, this.#vocabulary] = [xgrammar, vocabulary];
    const type = Object.values(xgrammar.types).find(({ name }) => name === 'CompiledGrammar'),
      compiled = type?.fromWireType(pointer) as object, // it is one of its classes
      made = new (xgrammar.binding.GrammarMatcher as MatcherClass)(compiled, undefined, false, -1);
    this.#handle = made;
    abandoned.register(this, made, this);
  }

  /** Returns which ids may come next as bits: id i is bit i % 32 of word i / 32. Valid until `accept`. */
  allowed(): Int32Array {
    return (this.#mask ??= this.#run((handle) => {
      const { size, rules } = this.#vocabulary,
        vector = handle.GetNextTokenBitmask(size);
      try {
        const mask = this.#xgrammar.binding.vecIntToView(vector).slice(),
          used = size & 31;
        if (used > 0) mask[mask.length - 1] = (mask.at(-1) as number) & ((1 << used) - 1); // others are set there
        if (this.#last !== undefined) rules.apply(mask, this.#last);
        return mask;
      } finally {
        vector.delete();
      }
    }));
  }

  /** Takes the id that came. @throws KvError for one that may not come */
  accept(id: number): void {
    const allowed = this.allowed();
    if (
      !(Number.isInteger(id) && id >= 0 && id < this.#vocabulary.size) ||
      ((allowed[id >> 5] as number) & (1 << (id & 31))) === 0
    )
      throw new KvError('grammar', `token ${id} may not come here`);
    [this.#mask, this.#last] = [undefined, id];
    if (!this.#run((handle) => handle.AcceptToken(id, false)))
      throw new KvError('grammar', `token ${id} was allowed and then not taken`);
  }

  /** Whether nothing but an end token may come. @throws KvError where nothing may */
  get complete(): boolean {
    const left = this.allowed().slice();
    let ends = false;
    for (const id of this.#vocabulary.stops) {
      const bit = 1 << (id & 31),
        word = left[id >> 5] as number;
      ends ||= (word & bit) !== 0;
      left[id >> 5] = word & ~bit;
    }
    if (left.some((word) => word !== 0)) return false;
    if (!ends)
      throw new KvError('grammar', "no token may come: the model's vocabulary cannot write what must come next");
    return true;
  }

  /** Frees it. Idempotent. */
  destroy(): void {
    const handle = this.#handle;
    if (!handle) return;
    this.#handle = this.#mask = undefined;
    abandoned.unregister(this);
    handle.delete();
  }

  #run<T>(call: (handle: MatcherHandle) => T): T {
    if (!this.#handle) throw new KvError('grammar', 'this constraint is destroyed');
    try {
      return call(this.#handle);
    } catch (error) {
      throw new KvError('grammar', this.#xgrammar.said() || (error instanceof Error ? error.message : String(error)));
    }
  }
}
const abandoned = new FinalizationRegistry((handle: MatcherHandle) => handle.delete());
