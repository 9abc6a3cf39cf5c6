import { Sampler } from '@kv/models';
import { samplingOf, StopText } from '@kv/engine';
import type { DecodeOptions, Grammar, SamplerOptions, Sequence, StreamDecoder } from '@kv/models';
import { likelihood } from '../protocol/logprobs.ts';
import type { ScoredToken } from '../protocol/logprobs.ts';

/** Sampling and stopping options of an answer. */
export interface AnswerLimits extends Given<'maxNewTokens' | 'stop' | 'stopAtEos' | 'seed'>, SamplerOptions {
  readonly seed: number;
  /** Constrains each answer. */
  readonly grammar?: Grammar | undefined;
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
}

/** One answer being generated: draws its next token and emits text once it is final. */
export class AnswerChoice {
  readonly index: number;
  readonly sequence: Sequence;
  /** The token to feed next. */
  token = -1;
  /** Bytes reserved for its sequence. */
  promised: number;
  #made = 0;
  #offset: number;
  readonly #limits: AnswerLimits;
  readonly #sampler: Sampler;
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
    this.#sampler = new Sampler(
      { ...samplingOf(limits), seed: limits.seed + index },
      { prompt: sequence.progress.text.ids, grammar: limits.grammar },
    );
    this.#stream = sequence.progress.text.decoder();
    this.#stops = new StopText(limits.stop);
  }

  /** Draws the next token; the caller feeds it unless the choice has finished. */
  async next(): Promise<TokenEvent> {
    const { maxNewTokens, stopAtEos, logprobs } = this.#limits,
      { config } = this.sequence.model;
    if (this.#made === maxNewTokens) return this.#end('length');
    if (this.#sampler.complete) return this.#end('stop');
    const token = await this.sequence.next(this.#sampler);
    if (stopAtEos && config.eosIds.includes(token)) return this.#end('stop');
    this.#sampler.accept(token);
    this.#made++;
    this.token = token;
    const of = logprobs === undefined ? undefined : likelihood(await this.#row(), token, logprobs);
    const piece = this.#stream.push(token),
      scored = of && [{ id: token, offset: this.#offset, likelihood: of }],
      text = this.#stops.push(piece);
    this.#offset += piece.length;
    const event = { choice: this.index, text, tokens: 1, ...(scored && { scored }) };
    if (this.#stops.stopped) return { ...event, finish: 'stop' };
    if (this.#made < maxNewTokens && this.sequence.memory.slots.fits(1)) return event;
    const end = this.#end('length');
    return { ...event, text: text + end.text, finish: 'length' };
  }

  /** Frees what a grammar holds. */
  release(): void {
    this.#sampler.destroy();
  }

  async #row(): Promise<Float32Array> {
    return (await this.sequence.logits()).at(-1)!; // it was fed
  }

  #end(finish: StopReason): TokenEvent {
    const text = this.#stops.end(this.#stream.end());
    return { choice: this.index, text, tokens: 0, finish: this.#stops.stopped ? 'stop' : finish };
  }
}
