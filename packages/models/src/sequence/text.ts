import { KvError } from '@kv/core';
import type { Tokens } from '@kv/core';
import type { Tokenizer } from '../tokenizer/interface.ts';

/** Ids, text and exact offsets of a growing sequence. A token that holds part of a character covers that character. */
export class TokenText implements Tokens {
  readonly ids: number[] = [];
  readonly offsets: (readonly [number, number])[] = [];
  text = '';
  readonly #tokenizer: Tokenizer;
  #decoder: ReturnType<Tokenizer['streamDecoder']>;
  #open = 0;
  #count = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    this.#decoder = tokenizer.streamDecoder();
  }

  /** Adds one token and returns the text that is now certain. */
  push(id: number): string {
    const start = this.text.length;
    const piece = this.#decoder.push(id);
    this.ids.push(id);
    this.#count++;
    this.text += piece;
    this.offsets.push([start, this.text.length]);
    if (piece === '') {
      if (this.#tokenizer.decode([id]) !== '') this.#open++; // part of a character; special tokens decode to nothing
      return piece;
    }
    const first = start + (piece.codePointAt(0)! > 0xffff ? 2 : 1); // not empty, see above
    for (; this.#open > 0; this.#open--) this.offsets[this.offsets.length - 1 - this.#open] = [start, first];
    return piece;
  }

  /** @throws KvError where a piece, which may only read them, has added tokens or taken some away */
  expectOwn(): void {
    const { ids, offsets, text } = this;
    if (ids.length !== this.#count || offsets.length !== this.#count || (offsets.at(-1)?.[1] ?? 0) !== text.length)
      throw new KvError(
        'tokens',
        `expected the ${this.#count} that were fed, got others from a piece that changed them`,
      );
  }

  /** What an unfinished character leaves, U+FFFD, at the end of a generation; the sequence itself can go on. */
  rest(): string {
    return this.#open > 0 ? '\uFFFD' : '';
  }

  /** @param upTo tokens of the copy, from the first */
  fork(upTo: number = this.ids.length): TokenText {
    const copy = new TokenText(this.#tokenizer);
    if (upTo < this.ids.length) {
      for (let i = 0; i < upTo; i++) copy.push(this.ids[i]);
      return copy;
    }
    for (const [i, id] of this.ids.entries()) {
      copy.ids.push(id);
      copy.offsets.push(this.offsets[i]);
    }
    copy.text = this.text;
    copy.#count = this.#count;
    copy.#open = this.#open;
    for (const id of this.#open > 0 ? this.ids.slice(-this.#open) : []) copy.#decoder.push(id);
    return copy;
  }
}
