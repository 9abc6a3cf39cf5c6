import type { Tokens } from '@kv/core';

/** What is used of a tokenizer of transformers.js. */
export interface Decodes {
  decode(ids: number[], options: { skip_special_tokens: boolean; clean_up_tokenization_spaces: boolean }): string;
}

/**
 * Ids, text and offsets (UTF-16) of a growing sequence; a token that holds a part of a character covers that character.
 */
export class Text implements Tokens {
  readonly ids: number[] = [];
  readonly offsets: (readonly [number, number])[] = [];
  text = '';
  readonly #tokenizer: Decodes;
  /** Tokens whose character is not whole yet. */
  #open = 0;

  constructor(tokenizer: Decodes) {
    this.#tokenizer = tokenizer;
  }

  push(id: number): void {
    const { length } = this.text;
    this.ids.push(id);
    const before = this.#read(this.ids.slice(-this.#open - 2, -this.#open - 1)),
      piece = this.#read(this.ids.slice(-this.#open - 2)).slice(before.length);
    if (piece.endsWith('\uFFFD')) {
      this.#open++;
      this.offsets.push([length, length]);
      return;
    }
    this.text += piece;
    const first = length + ((piece.codePointAt(0) ?? 0) > 0xffff ? 2 : 1);
    for (; this.#open > 0; this.#open--) this.offsets[this.ids.length - 1 - this.#open] = [length, first];
    this.offsets.push([length, this.text.length]);
  }

  /** A copy that goes its own way. */
  fork(): Text {
    const copy = new Text(this.#tokenizer);
    copy.ids.push(...this.ids);
    copy.offsets.push(...this.offsets);
    copy.text = this.text;
    copy.#open = this.#open;
    return copy;
  }

  #read(ids: number[]): string {
    return ids.length === 0
      ? ''
      : this.#tokenizer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false });
  }
}
