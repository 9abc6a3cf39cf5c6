/** What one run over a prompt came to. */
export interface Speed {
  /** Tokens a second up to the first generated token. */
  readonly prefill: number;
  /** Tokens a second behind it. */
  readonly decode: number;
}

/** One event of a policy. */
interface EventCost {
  readonly ms: number;
  /** Of the prefill without it. */
  readonly share: number;
}

/** What an engine came to, turn by turn. */
export interface EngineTimes {
  readonly name: string;
  /** What the engine calls itself. */
  readonly engine: string;
  readonly speed: readonly { readonly tokens: number; readonly turns: readonly Speed[] }[];
  /** Of the first length. */
  readonly events: readonly { readonly policy: string; readonly turns: readonly EventCost[] }[];
  readonly memory: {
    /** Most bytes of caches and what is beside them at the longest length; unknown of the peer. */
    readonly cache?: number;
    /** Bytes by which the process grew. */
    readonly process: number;
  };
}

/** What every engine is asked. */
export interface BenchJob {
  /** Prompts, shortest first. */
  readonly prompts: readonly (readonly number[])[];
  readonly decode: number;
  readonly turns: number;
  readonly threads: number | undefined;
  readonly signal: AbortSignal;
}

/** Tokens of a block in prefill, of every engine. */
export const BLOCK = 512;

/** Speed of a run that began at `start` and gave tokens at these times. */
export const speedOf = (tokens: number, start: number, at: readonly number[]): Speed => ({
  prefill: (1000 * tokens) / (at[0] - start),
  decode: (1000 * (at.length - 1)) / (at[at.length - 1] - at[0]),
});

/** Every prompt, turn after turn, once a short run warmed the engine up; nothing further once it is aborted. */
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
