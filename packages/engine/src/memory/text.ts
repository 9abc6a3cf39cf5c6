import { KvError } from '@kv/core';
import type { Tokens } from '@kv/core';
import type { DecoderOptions, StreamDecoder, Tokenizer } from '@kv/checkpoints';

/** Ids, text and exact offsets of a growing sequence. A token that holds part of a character covers that character. */
export class TokenText implements Tokens {
  readonly ids: number[] = [];
  readonly offsets: (readonly [number, number])[] = [];
  text = '';
  readonly #tokenizer: Tokenizer;
  #decoder: StreamDecoder;
  /** Positions of the tokens that hold part of a character that is not complete yet. */
  #open: number[] = [];
  #count = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    this.#decoder = tokenizer.streamDecoder();
  }

  /** Adds one token and returns the text that is now final. */
  push(id: number): string {
    const start = this.text.length,
      { pending } = this.#decoder,
      piece = this.#decoder.push(id);
    this.ids.push(id);
    this.text += piece;
    this.offsets.push([start, this.text.length]);
    if (piece !== '') {
      const first = start + (piece.codePointAt(0)! > 0xffff ? 2 : 1); // not empty, see above
      for (const at of this.#open) this.offsets[at] = [this.offsets[at][0], first];
      this.#open = this.#decoder.pending > 0 ? [this.#count] : [];
    } else if (this.#decoder.pending > pending) this.#open.push(this.#count);
    this.#count++;
    return piece;
  }

  /** Checks the tokens. @throws KvError if a piece, which may only read them, has added or removed tokens */
  expectOwn(): void {
    const { ids, offsets, text } = this;
    if (ids.length !== this.#count || offsets.length !== this.#count || (offsets.at(-1)?.[1] ?? 0) !== text.length)
      throw new KvError('tokens', `a piece changed the ids of the ${this.#count} tokens that were fed`);
  }

  /**
   * Returns a decoder for the text that follows: `text`, its output and its end are together the text of all ids. A
   * character that is incomplete so far comes first.
   * @param options which special tokens it writes out. @defaultValue none
   */
  decoder(options?: DecoderOptions): StreamDecoder {
    return this.#decoder.fork(options);
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
    copy.#open = [...this.#open];
    copy.#decoder = this.#decoder.fork();
    return copy;
  }
}
