import type { Tokens } from '@kv/core';

/** The used part of a tokenizer of transformers.js. */
export interface Decodes {
  decode(ids: number[], options: { skip_special_tokens: boolean; clean_up_tokenization_spaces: boolean }): string;
}

/**
 * Ids, text and offsets (UTF-16) of a growing sequence; a token that holds part of a character spans the whole
 * character.
 */
export class SequenceText implements Tokens {
  readonly ids: number[] = [];
  readonly offsets: (readonly [number, number])[] = [];
  text = '';
  readonly #tokenizer: Decodes;
  /** Tokens since the last complete character, and the offset of each. */
  #open: { readonly at: number; readonly start: number }[] = [];
  /** The decoded text of these tokens. */
  #half = '';

  constructor(tokenizer: Decodes) {
    this.#tokenizer = tokenizer;
  }

  push(id: number): void {
    const { length } = this.text,
      at = this.ids.push(id) - 1,
      from = this.#open[0]?.at ?? at;
    // the first word of a text loses its space, so decode after tokens that have a text
    let before = '',
      first = from;
    while (first > 0 && before === '') before = this.#read(this.ids.slice(--first, from));
    const piece = this.#read(this.ids.slice(first)).slice(before.length),
      start = length + certain(this.#half).length;
    if (piece === this.#half && this.#read([id]) === '') {
      this.offsets.push([start, start]); // a special token
      return;
    }
    const starts = [...this.#open, { at, start }];
    if (piece.endsWith(HALF)) {
      [this.#open, this.#half] = [starts, piece];
      this.offsets.push([start, start]);
      return;
    }
    this.text += piece;
    this.offsets.push([start, this.text.length]);
    for (const [i, open] of starts.slice(0, -1).entries()) {
      const last = starts[i + 1].start,
        end = last + ((this.text.codePointAt(last) ?? 0) > 0xffff ? 2 : 1);
      this.offsets[open.at] = [open.start, end];
    }
    [this.#open, this.#half] = [[], ''];
  }

  /** Returns an independent copy. */
  fork(): SequenceText {
    const copy = new SequenceText(this.#tokenizer);
    for (const [i, id] of this.ids.entries()) {
      copy.ids.push(id);
      copy.offsets.push(this.offsets[i]);
    }
    [copy.text, copy.#open, copy.#half] = [this.text, this.#open, this.#half];
    return copy;
  }

  #read(ids: number[]): string {
    return ids.length === 0
      ? ''
      : this.#tokenizer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false });
  }
}

/** How an incomplete character is decoded. */
const HALF = '\uFFFD';
/** Returns the part of a decoded text that later tokens do not change. */
const certain = (text: string): string => (text.endsWith(HALF) ? text.slice(0, -1) : text);
