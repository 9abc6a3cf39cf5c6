import type { EncodeOptions, Tokenizer } from '@kv/models';
import { cancelledRefusal, Refusal } from './refusal.ts';

/** A text with its encoding options. */
export interface PromptText {
  readonly text: string;
  readonly options?: EncodeOptions;
}

/** Limits of a prompt. */
export interface PromptLimits {
  /** Maximum number of tokens. */
  readonly tokens: number;
  /** What sets the maximum, such as `the model's context of 4096 tokens`. */
  readonly of: string;
  /** Stops reading once aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** Returns the bound of prompts that need not fit the model's context. */
export const longestRead = (tokens: number): PromptLimits => ({
  tokens,
  of: `the ${tokens} tokens that this server reads of one`,
});

/**
 * Characters read before yielding to the event loop. Longer texts are read one at a time, so that the memory of reading
 * is needed once.
 */
const SHORT = 2 ** 14;
/** Texts up to this many characters are read without yielding. */
const PART = 2 ** 10;

/**
 * Tokenizes texts of concurrent requests: refuses a text that cannot fit unread, reads a long one in parts between
 * turns of the event loop, and stops once it has too many ids.
 */
export class TextReader {
  readonly #tokenizer: Tokenizer;
  /** Maximum characters of a token. */
  readonly #longest: number;
  #turn: Promise<unknown> = Promise.resolve();
  /** Characters begun since the last yield. */
  #since = 0;
  readonly #resting: (() => void)[] = [];

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    let longest = 1;
    for (let id = 0; id < tokenizer.size; id++) longest = Math.max(longest, tokenizer.bytesOf(id).length);
    this.#longest = longest;
  }

  /** Returns the maximum number of characters in `tokens` tokens. */
  charactersOf(tokens: number): number {
    return tokens * this.#longest;
  }

  /** @throws Refusal for more characters than can fit */
  expectFits(characters: number, { tokens, of }: PromptLimits, param: string): void {
    if (characters > this.charactersOf(tokens))
      throw tooLong(`${characters} characters, of which a token has at most ${this.#longest}`, of, param);
  }

  /** Tokenizes a text. @throws Refusal for more tokens than the limits allow, or once aborted */
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

  /** Waits for a turn of the event loop; one waiter goes on per turn. */
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

/** The refusal of a prompt of more tokens than fit. */
export const tooLong = (got: string | number, of: string, param?: string): Refusal =>
  new Refusal(`the prompt must fit ${of}, got ${got}`, {
    ...(param !== undefined && { param }),
    code: 'context_length_exceeded',
  });
