import type { Backend, Budget, Policy } from '@kv/core';
import type { Observer } from '../memory/observer.ts';

export interface DecodeOptions {
  /** @defaultValue 64 */
  readonly maxNewTokens?: number | undefined;
  /** Strings that end the generation; they are not part of the text. */
  readonly stop?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
  /** 0 is greedy. @defaultValue 0 */
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly seed?: number | undefined;
  /** End at the model's end token. @defaultValue true for text, false for ids: ids in, exactly as many ids out */
  readonly stopAtEos?: boolean | undefined;
  /**
   * An event every so many generated tokens. @defaultValue the policy's cadence, else none: it evicts once, at the end
   * of prefill
   */
  readonly every?: number | undefined;
  /**
   * Steps in flight at once where the sequence is on a device: the next one starts before the id of the
   * last is there, unless an event follows it or the policy looks at every token. What
   * ran ahead of the end is rolled back. @defaultValue 2, and 1 where logits are asked for
   */
  readonly inFlight?: number | undefined;
  /** Keep what events read of the past, since one will follow this generation. @defaultValue false without `every` */
  readonly remember?: boolean | undefined;
}
export interface GenerateOptions extends DecodeOptions {
  /** Text; or `ids`. */
  readonly prompt?: string | undefined;
  readonly ids?: readonly number[] | undefined;
  /** A policy, or its text: `'snapkv | caote | topK'`. @defaultValue nothing is evicted */
  readonly policy?: Policy | string | undefined;
  readonly budget?: Budget | undefined;
  /**
   * The policy that tokens are generated under; one that evicts wants `every`, or a cadence of its own. @defaultValue
   * `policy`
   */
  readonly decodePolicy?: Policy | string | undefined;
  /**
   * Budget of the events while generating: slots, or a share of all tokens so far. @defaultValue the slots of `budget`
   */
  readonly decodeBudget?: Budget | undefined;
  /** Prefill in blocks of so many tokens, each followed by an event. */
  readonly block?: number | undefined;
  /** Give the logits of the last so many positions of prompt and answer, the last generated token fed too. */
  readonly logits?: number | undefined;
  /**
   * Is shown what every event drops and every view hides; what it concludes is `report.certificates`. Costs the newest
   * query's attention once more each time.
   */
  readonly certify?: Observer | undefined;
  /** Where pieces run, beside a cache on the host. @defaultValue where the model's engine keeps caches, else the CPU */
  readonly backend?: Backend | undefined;
}
export const DECODE_OPTIONS = {
  maxNewTokens: true,
  stop: true,
  signal: true,
  temperature: true,
  topP: true,
  seed: true,
  stopAtEos: true,
  every: true,
  inFlight: true,
  remember: true,
} as const;
export const GENERATE_OPTIONS = {
  prompt: true,
  ids: true,
  policy: true,
  budget: true,
  decodePolicy: true,
  decodeBudget: true,
  block: true,
  logits: true,
  certify: true,
  backend: true,
  ...DECODE_OPTIONS,
} as const;
/** One token, or, at the end, text that was held back for a stop string. The text is certain now and may be empty. */
export interface Chunk {
  readonly token?: number;
  readonly text: string;
}
export type Finish = 'length' | 'stop' | 'eos' | 'aborted' | 'context';
