import type { Model } from '@kv/models';
import { BLOCK, type Speed as Rates } from '../bench/bench-job.ts';
import { timeRun } from '../bench/timed.ts';

/** Tokens per second, for a prompt of `promptTokens` and for decoding after it. */
export interface DoctorSpeed extends Rates {
  readonly promptTokens: number;
}

const PROMPT = 256;
const ANSWER = 32;
const RUNS = 3;
/** Milliseconds after which a slow engine is not run again. */
const ENOUGH = 1500;

/** Returns the best of a few runs: other load on a machine only makes it slower. */
export async function bestSpeed(model: Model, signal: AbortSignal): Promise<DoctorSpeed> {
  const { tokenizer, config } = model,
    text = tokenizer.encode('The boys walked on in silence, and the river was wide. ').ids,
    promptTokens = Math.min(PROMPT, Math.floor(config.maxPositions / 2)),
    ids = Array.from({ length: promptTokens }, (_, i) => text[i % text.length]),
    steps = Math.min(ANSWER, config.maxPositions - promptTokens - 1),
    began = performance.now();
  const best = { promptTokens, prefill: 0, decode: 0 };
  for (let run = 0; run < RUNS && (run === 0 || performance.now() - began < ENOUGH); run++) {
    const { prefill, decode } = await timeRun(model, ids, { steps, block: BLOCK, signal });
    best.prefill = Math.max(best.prefill, prefill);
    best.decode = Math.max(best.decode, decode);
  }
  return best;
}
