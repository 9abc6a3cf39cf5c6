import type { EncodeOptions, Tokenizer } from '@kv/models';
import { cancelledRefusal, Refusal } from './refusal.ts';

/** A text, and how it is read. */
export interface PromptText {
  readonly text: string;
  readonly options?: EncodeOptions;
}

/** What a prompt may be. */
export interface PromptLimits {
  /** Most tokens. */
  readonly tokens: number;
  /** Why so many: `the model's context of 4096 tokens`. */
  readonly of: string;
  /** Once aborted, nothing more is read. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Characters of texts that are read before other things have a turn; of texts that are longer one at a time is read, so
 * that what reading takes is there once.
 */
const SHORT = 2 ** 14;
/** Characters that are never more than one part, or soon after it. */
const PART = 2 ** 10;

/**
 * Reads texts as ids, for many requests: a text that cannot fit is refused unread, a long one is read in parts, between
 * which other things happen, and is left where its ids are too many.
 */
export class TextReader {
  readonly #tokenizer: Tokenizer;
  /** Most characters of a token. */
  readonly #longest: number;
  #turn: Promise<unknown> = Promise.resolve();
  /** Characters begun since other things had a turn. */
  #since = 0;
  readonly #resting: (() => void)[] = [];

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    let longest = 1;
    for (let id = 0; id < tokenizer.size; id++) longest = Math.max(longest, tokenizer.bytesOf(id).length);
    this.#longest = longest;
  }

  /** Most characters that so many tokens hold. */
  charactersOf(tokens: number): number {
    return tokens * this.#longest;
  }

  /** @throws Refusal for so many characters that they cannot fit */
  expectFits(characters: number, { tokens, of }: PromptLimits, param: string): void {
    if (characters > this.charactersOf(tokens))
      throw tooLong(`${characters} characters, of which a token has at most ${this.#longest}`, of, param);
  }

  /** The ids of a text. @throws Refusal for more than the limits allow, or once it is aborted */
  async read(prompt: PromptText, limits: PromptLimits, param: string): Promise<readonly number[]> {
    const characters = prompt.text.length;
    this.expectFits(characters, limits, param);
    if (characters <= SHORT) return this.#ids(prompt, limits, param);
    const ids = this.#turn.then(() => this.#ids(prompt, limits, param));
    this.#turn = ids.catch(() => {});
    return ids;
  }

  async #ids(
    { text, options }: PromptText,
    { tokens, of, signal }: PromptLimits,
    param: string,
  ): Promise<readonly number[]> {
    const ids: number[] = [];
    const rest = async (): Promise<void> => {
      await this.#rest();
      if (signal?.aborted) throw cancelledRefusal();
    };
    this.#since += text.length;
    if (this.#since > SHORT) await rest();
    for (const part of this.#tokenizer.encodeParts(text, options)) {
      for (const id of part) ids.push(id);
      if (ids.length > tokens) throw tooLong(`more than ${tokens}`, of, param);
      if (text.length > PART) await rest();
    }
    return ids;
  }

  /** Waits until other things had a turn; of those who wait one goes on in a turn. */
  #rest(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#resting.push(resolve) === 1) setImmediate(() => this.#goOn());
    });
  }
  #goOn(): void {
    this.#since = 0;
    this.#resting.shift()?.();
    if (this.#resting.length > 0) setImmediate(() => this.#goOn());
  }
}

/** A prompt of more tokens than fit. */
export const tooLong = (got: string | number, of: string, param?: string): Refusal =>
  new Refusal(`the prompt must fit ${of}, got ${got}`, {
    ...(param !== undefined && { param }),
    code: 'context_length_exceeded',
  });
