import { Sampler } from '@kv/models';
import { samplingOf, StopText } from '@kv/engine';
import type { DecodeOptions, Grammar, SamplerOptions, Sequence, StreamDecoder } from '@kv/models';
import { likelihood } from '../protocol/logprobs.ts';
import type { ScoredToken } from '../protocol/logprobs.ts';

/** Sampling and stopping options of an answer. */
export interface AnswerLimits extends Given<'maxNewTokens' | 'stop' | 'stopAtEos'>, SamplerOptions {
  readonly seed: number;
  /** Constrains each answer. */
  readonly grammar?: Grammar | undefined;
  /** Texts of special tokens that are part of the answer's text. @defaultValue none */
  readonly marks?: readonly string[] | undefined;
  /** Texts of special tokens that end an answer, in addition to the model's end tokens. @defaultValue none */
  readonly ends?: readonly string[] | undefined;
  /** Number of most likely tokens to report for each token; absent if no log-probabilities were requested. */
  readonly logprobs?: number | undefined;
}
type Given<K extends keyof DecodeOptions> = { readonly [k in K]: NonNullable<DecodeOptions[k]> };
export type StopReason = 'stop' | 'length';

/** One step of a choice: the text that is now final, and whether the choice ended. */
export interface TokenEvent {
  readonly choice: number;
  readonly text: string;
  readonly scored?: readonly ScoredToken[];
  /** Tokens generated in this step: 1, or 0 where the choice only ended. */
  readonly tokens: number;
  readonly finish?: StopReason;
  /** The stop text that ended it. */
  readonly stopText?: string | undefined;
}

/** One answer being generated: draws its next token and emits text once it is final. */
export class AnswerChoice {
  readonly index: number;
  readonly sequence: Sequence;
  /** The token to feed next. */
  token = -1;
  /** Bytes reserved for its sequence. */
  promised: number;
  /** What the client is given. */
  text = '';
  #made = 0;
  #ended = false;
  /** All that was generated, and what of it the cache holds. */
  #said = '';
  #fed = '';
  #offset: number;
  readonly #limits: AnswerLimits;
  readonly #sampler: Sampler;
  readonly #ends: ReadonlySet<number | undefined>;
  readonly #stream: StreamDecoder;
  readonly #stops: StopText;

  constructor(index: number, sequence: Sequence, limits: AnswerLimits, promised: number, offset: number) {
    [this.index, this.sequence, this.#limits, this.promised, this.#offset] = [
      index,
      sequence,
      limits,
      promised,
      offset,
    ];
    const { config, tokenizer } = sequence.model;
    this.#sampler = new Sampler(
      { ...samplingOf(limits), seed: limits.seed + index },
      { prompt: sequence.progress.text.ids, grammar: limits.grammar, config },
    );
    this.#stream = sequence.progress.text.decoder({ special: limits.marks ?? [] });
    this.#stops = new StopText(limits.stop);
    this.#ends = new Set([...config.eosIds, ...(limits.ends ?? []).map((text) => tokenizer.specials.get(text))]);
  }

  /** Draws the next token; the caller feeds it unless the choice has finished. */
  async next(): Promise<TokenEvent> {
    const { maxNewTokens, stopAtEos, logprobs } = this.#limits;
    if (this.#made === maxNewTokens) return this.#end('length');
    const token = await this.sequence.next(this.#sampler);
    if (stopAtEos && this.#ends.has(token)) {
      this.#ended = true;
      return this.#end('stop');
    }
    this.#sampler.accept(token);
    this.#made++;
    this.token = token;
    this.#fed = this.#said;
    const of = logprobs === undefined ? undefined : likelihood(await this.#row(), token, logprobs);
    const piece = this.#stream.push(token),
      scored = of && [{ id: token, offset: this.#offset, likelihood: of }],
      text = this.#stops.push(piece);
    this.#said += piece;
    this.text += text;
    this.#offset += piece.length;
    const event = { choice: this.index, text, tokens: 1, ...(scored && { scored }) };
    if (this.#stops.stopped) return { ...event, finish: 'stop', stopText: this.#stops.found };
    const { complete } = this.#sampler;
    if (!complete && this.#made < maxNewTokens && this.sequence.memory.slots.fits(1)) return event;
    const end = this.#end(complete ? 'stop' : 'length');
    return { ...end, ...event, text: text + end.text };
  }

  /** Frees what a grammar holds. */
  release(): void {
    this.#sampler.destroy();
  }

  /**
   * Returns what the next turn must know of the end of the cache once the answer has ended; undefined where the cache
   * holds other text than the answer, cut by a stop text of several tokens.
   * @param tails stop texts that may stay, see `ConversationTurns`
   */
  end(tails: readonly string[]): { readonly unread: readonly number[]; readonly tail: string } | undefined {
    const unread = this.#ended || this.#made === 0 ? [] : [this.token],
      tail = this.#said.startsWith(this.text) ? this.#said.slice(this.text.length) : undefined;
    if (tail !== undefined && (tail === '' || tails.includes(tail))) return { unread, tail };
    return this.#fed === this.text ? { unread: [], tail: '' } : undefined;
  }

  async #row(): Promise<Float32Array> {
    return (await this.sequence.logits()).at(-1)!; // it was fed
  }

  #end(finish: StopReason): TokenEvent {
    const rest = this.#stream.end(),
      text = this.#stops.end(rest),
      { found: stopText } = this.#stops;
    this.#said += rest;
    this.text += text;
    return { choice: this.index, text, tokens: 0, finish: stopText === undefined ? finish : 'stop', stopText };
  }
}
