import type { CacheSnapshot, Snapshot } from './snapshot.ts';
import type { TokenText } from './text.ts';

/** The text of a sequence and the counts that go with it, wherever its caches live. */
export class TokenProgress {
  readonly text: TokenText;
  promptLength = 0;
  /**
   * Sequence length that rotary scaling goes by, fixed for the sequence's life: that of its first prompt, whatever is
   * appended or generated.
   */
  rotaryLength = 0;
  /** Number of tokens generated. */
  decoded = 0;
  /** How far new tokens' rotations lie below their positions; 0 until the kept slots are moved together. */
  shift = 0;
  /** The most slots that a head of any layer has held. */
  mostSlots = 0;
  /**
   * How many of its first tokens are as a prompt without a policy leaves them: hidden from nothing, frozen nowhere, and
   * their slots neither demoted nor replaced. Another prompt may begin with these.
   */
  unaltered = Infinity;
  /** Slots freed because a sliding window had made them unreachable, over layers and KV heads. */
  unreachable = 0;
  #whole: number | undefined;

  constructor(text: TokenText) {
    this.text = text;
  }

  /** Tokens fed so far, evicted ones included. */
  get length(): number {
    return this.text.ids.length;
  }

  /** Tokens that every layer was fed: fewer than `length` once a block failed in its middle. */
  get whole(): number {
    return this.#whole ?? this.length;
  }

  /** Notes that a block failed, after which only the first `tokens` are in every layer. */
  cutShort(tokens: number): void {
    this.#whole = Math.min(tokens, this.whole);
  }

  /** Sets how many of the tokens to come belong to the prompt. */
  setPrompt(more: number): void {
    this.promptLength = this.length + more;
    if (this.length === 0) this.rotaryLength = more;
  }

  /** Notes that a layer's longest head holds this many slots. */
  countSlots(slots: number): void {
    this.mostSlots = Math.max(this.mostSlots, slots);
  }

  /** Notes that tokens from this one on are not as a prompt without a policy leaves them. */
  noteAltered(from: number): void {
    this.unaltered = Math.min(this.unaltered, from);
  }

  /** Returns the rotary positions of tokens at these original positions. */
  rotations(positions: Uint32Array): Uint32Array {
    return this.shift === 0 ? positions : positions.map((p) => p - this.shift);
  }

  /** Returns a copy for the first `upTo` tokens. */
  fork(upTo: number): TokenProgress {
    const { promptLength, rotaryLength, decoded, shift, mostSlots, unreachable, unaltered } = this;
    const left = this.length - upTo;
    return Object.assign(new TokenProgress(this.text.fork(upTo)), {
      ...{ rotaryLength, shift, unreachable, unaltered, promptLength: Math.min(promptLength, upTo) },
      // a part that ends in the prompt is a prompt
      decoded: left === 0 ? decoded : upTo > promptLength ? decoded - left : 0,
      mostSlots: left === 0 ? mostSlots : Math.min(mostSlots, upTo),
    });
  }

  /** Returns what a snapshot holds of it. */
  snapshot(): ProgressSnapshot {
    const { rotaryLength, decoded, mostSlots, shift } = this,
      unaltered = Math.min(this.unaltered, this.length),
      // between two parts of a prompt what was fed is the prompt
      promptLength = Math.min(this.promptLength, this.length);
    return { ids: [...this.text.ids], promptLength, rotaryLength, decoded, mostSlots, shift, unaltered };
  }

  /** Restores a snapshot's text and counts into an empty one. */
  restore({ ids, unaltered, ...counts }: ProgressSnapshot): void {
    for (const id of ids) this.text.push(id);
    Object.assign(this, counts);
    this.noteAltered(unaltered < ids.length ? unaltered : Infinity);
  }
}

type ProgressSnapshot = Omit<Snapshot, keyof CacheSnapshot>;
