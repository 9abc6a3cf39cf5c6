import type { Model } from '@kv/models';
import { BLOCK, type Speed as Rates } from '../bench/measured.ts';
import { timeRun } from '../bench/timed.ts';

/** Tokens a second, of a prompt of `promptTokens` and of what follows it. */
export interface DoctorSpeed extends Rates {
  readonly promptTokens: number;
}

const PROMPT = 256;
const ANSWER = 32;
const RUNS = 3;
/** Milliseconds after which a slow engine is not asked again. */
const ENOUGH = 1500;

/** The best of a few runs: what else a machine does makes it slower, never faster. */
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
