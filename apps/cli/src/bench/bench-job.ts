import type { CacheUsage } from '@kv/models';

/** Speed of one run over a prompt. */
export interface Speed {
  /** Tokens per second up to the first generated token. */
  readonly prefill: number;
  /** Tokens per second after it. */
  readonly decode: number;
}

/** Cost of one event of a policy. */
interface EventCost {
  readonly ms: number;
  /** Share of the prefill's time without the event. */
  readonly share: number;
}

/** Decoding under a policy that hides slots: speeds, and what the engine counted a token. */
export interface ViewRun {
  readonly policy: string;
  readonly tokens: number;
  /** Decoded tokens per second relative to the full cache, in turns. */
  readonly ratios: readonly number[];
  /** Slots that query heads attended to, over all layers, of as many, and numbers read to choose them and the bytes of both, where these are known; absent where the engine counts none. */
  readonly counted?: {
    readonly slots: number;
    readonly of: number;
    readonly numbers?: number;
    readonly bytes?: number;
  };
}

/** Measurements of an engine, one per turn. */
export interface EngineTimes {
  readonly name: string;
  /** Name of the engine, as it reports it. */
  readonly engine: string;
  readonly speed: readonly { readonly tokens: number; readonly turns: readonly Speed[] }[];
  /** Costs of events at the first length. */
  readonly events: readonly { readonly policy: string; readonly turns: readonly EventCost[] }[];
  /** Decoding under policies that hide slots, at the longest length. */
  readonly views: readonly ViewRun[];
  /** How caches are stored, and their bytes at the longest length; unknown for the peer. */
  readonly cache?: CacheUsage;
  readonly memory: {
    /** Growth of the process in bytes. */
    readonly process: number;
  };
}

/** The measurements to make on every engine. */
export interface BenchJob {
  /** Prompts, shortest first. */
  readonly prompts: readonly (readonly number[])[];
  readonly decode: number;
  readonly turns: number;
  readonly threads: number | undefined;
  readonly signal: AbortSignal;
}

/** Tokens per prefill block, the same for every engine. */
export const BLOCK = 512;

/** Returns the speed of a run that began at `start` and produced tokens at the times `at`. */
export const speedOf = (tokens: number, start: number, at: readonly number[]): Speed => ({
  prefill: (1000 * tokens) / (at[0] - start),
  decode: (1000 * (at.length - 1)) / (at[at.length - 1] - at[0]),
});

/** Measures every prompt in every turn after a short warm-up run; stops once aborted. */
export async function speeds(
  { prompts, turns, signal }: BenchJob,
  run: (ids: readonly number[]) => Promise<Speed>,
): Promise<EngineTimes['speed']> {
  const speed = prompts.map(({ length }) => ({ tokens: length, turns: [] as Speed[] }));
  await run(prompts[0].slice(0, 64));
  for (let turn = 0; turn < turns; turn++)
    for (const [i, ids] of prompts.entries()) {
      signal.throwIfAborted();
      speed[i].turns.push(await run(ids));
    }
  return speed;
}
