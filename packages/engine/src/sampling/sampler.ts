import type { ResolvedOptions } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { mulberry } from '@kv/core/shared';
import type { Constraint, Grammar } from '../generate/constraint.ts';
import { draw } from './draw.ts';
import { editLogits, Edits } from './edits.ts';
import type { LogitEdits } from './edits.ts';
import { greedy } from './greedy.ts';
import type { ModelConfig } from '@kv/checkpoints';
import { SAMPLING } from './options.ts';
import type { SamplerOptions } from './options.ts';

/** How the next id is drawn: `pick` draws on the host; a device draws by the rest, from its own random numbers. */
export interface SamplingRule extends ResolvedOptions<typeof SAMPLING> {
  /** Which ids may come next, as `Constraint.allowed` has them. @defaultValue all */
  readonly allowed?: Int32Array | undefined;
  /** What bias and penalties change now. @defaultValue nothing */
  readonly edits?: LogitEdits | undefined;
  /** Whether what may come depends on the ids before, so that no step may start before they are known. */
  readonly followsIds: boolean;
  /** Returns an id drawn from logits `[vocab]`. @throws KvError for logits that `greedy` refuses, or if no id may come */
  pick(logits: Float32Array): number;
}

/** Returns a seed of 32 bits: a whole number that has no more of them as it is, any other from all of its 64 bits. */
function seedOf(seed: number): number {
  if (seed === seed >>> 0 || seed === (seed | 0)) return seed;
  return new Uint32Array(Float64Array.of(seed).buffer).reduce((mixed, word) => {
    const x = Math.imul(mixed ^ word ^ (word >>> 15), 0x2c1b3c6d);
    return (x ^ (x >>> 13)) >>> 0;
  }, 0x9e3779b9);
}

/** Clears the bits of ids, and returns them. */
function without(allowed: Int32Array, ids: readonly number[]): Int32Array {
  for (const id of ids) allowed[id >> 5] &= ~(1 << (id & 31));
  return allowed;
}

/** Logits that were changed, for one id at a time of any answer. */
let edited = new Float32Array(0);

/** What a sampler goes by besides its options. */
export interface SamplerContext {
  /** Ids of the prompt, which `repetitionPenalty` counts. @defaultValue none */
  readonly prompt?: Iterable<number>;
  /** Constrains the answer. @defaultValue every id may come */
  readonly grammar?: Grammar | undefined;
  /** The model's configuration, whose `bannedIds` never come. @defaultValue every id may come */
  readonly config?: Pick<ModelConfig, 'vocab' | 'bannedIds'> | undefined;
}

/**
 * Draws the ids of one answer, by the steps of `SAMPLING` in their order. Call `accept` with each id that came, and
 * `destroy` at the end.
 *
 * @throws KvError for options out of range
 * @example
 * ```ts
 * const sampler = new Sampler({ temperature: 0.8, topK: 40, seed: 7 });
 * const id = await sequence.next(sampler);
 * sampler.accept(id);
 * ```
 */
export class Sampler implements SamplingRule {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly logitBias: SamplingRule['logitBias'];
  readonly seed: number;
  readonly followsIds: boolean;
  readonly #random: () => number;
  readonly #edits: Edits | undefined;
  readonly #constraint: Constraint | undefined;
  readonly #banned: readonly number[];
  /** What may come where no grammar says. */
  readonly #may: Int32Array | undefined;

  constructor(options: SamplerOptions = {}, { prompt = [], grammar, config }: SamplerContext = {}) {
    const rule = settleOwn('sampler', SAMPLING, options);
    ({
      temperature: this.temperature,
      topK: this.topK,
      topP: this.topP,
      minP: this.minP,
      repetitionPenalty: this.repetitionPenalty,
      frequencyPenalty: this.frequencyPenalty,
      presencePenalty: this.presencePenalty,
      logitBias: this.logitBias,
    } = rule);
    this.seed = seedOf(rule.seed);
    const penalized = rule.repetitionPenalty !== 1 || rule.frequencyPenalty !== 0 || rule.presencePenalty !== 0,
      { logitBias = {} } = rule;
    this.#random = mulberry(this.seed);
    this.#edits = penalized || Object.keys(logitBias).length > 0 ? new Edits(logitBias, rule, prompt) : undefined;
    this.followsIds = penalized || grammar !== undefined;
    this.#banned = config?.bannedIds ?? [];
    if (config && this.#banned.length > 0)
      this.#may = without(new Int32Array(Math.ceil(config.vocab / 32)).fill(-1), this.#banned);
    this.#constraint = grammar?.begin();
  }

  get allowed(): Int32Array | undefined {
    const allowed = this.#constraint?.allowed();
    return allowed && this.#may ? without(allowed.slice(), this.#banned) : (allowed ?? this.#may);
  }

  get edits(): LogitEdits | undefined {
    return this.#edits?.ids.length ? this.#edits : undefined;
  }

  /** Whether a grammar says that nothing but an end token may come. */
  get complete(): boolean {
    return this.#constraint?.complete === true;
  }

  pick(logits: Float32Array): number {
    const row = this.#changed(logits);
    return this.temperature === 0 ? greedy(row) : draw(row, this, this.#random());
  }

  /** Takes an id of the answer. @throws KvError for one that the grammar does not allow */
  accept(id: number): void {
    this.#constraint?.accept(id);
    this.#edits?.accept(id);
  }

  /** Frees what its grammar holds. Idempotent. */
  destroy(): void {
    this.#constraint?.destroy();
  }

  /** Returns the logits with what a grammar bans, bias and penalties. */
  #changed(logits: Float32Array): Float32Array {
    const { allowed, edits } = this;
    if (!allowed && !edits) return logits;
    if (edited.length !== logits.length) edited = new Float32Array(logits.length);
    editLogits(logits, { allowed, edits }, edited);
    return edited;
  }
}
