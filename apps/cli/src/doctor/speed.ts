import { decode, Sequence } from '@kv/models';
import type { Model } from '@kv/models';

/** Tokens a second, of a prompt of `promptTokens` and of what follows it. */
export interface Speed {
  readonly promptTokens: number;
  readonly prefill: number;
  readonly decode: number;
}

const PROMPT = 256;
const ANSWER = 32;
const RUNS = 3;
/** Milliseconds after which a slow engine is not asked again. */
const ENOUGH = 1500;

/** The best of a few runs: what else a machine does makes it slower, never faster. */
export async function speedOf(model: Model, signal: AbortSignal): Promise<Speed> {
  const { tokenizer, config } = model,
    text = tokenizer.encode('The boys walked on in silence, and the river was wide. ').ids,
    promptTokens = Math.min(PROMPT, Math.floor(config.maxPositions / 2)),
    ids = Array.from({ length: promptTokens }, (_, i) => text[i % text.length]),
    began = performance.now();
  const best = { promptTokens, prefill: 0, decode: 0 };
  for (let run = 0; run < RUNS && (run === 0 || performance.now() - began < ENOUGH); run++) {
    const sequence = new Sequence(model);
    try {
      const start = performance.now();
      await sequence.prefill(ids, { signal });
      const read = performance.now();
      let tokens = 0;
      for await (const { token } of decode(sequence, {
        maxNewTokens: Math.min(ANSWER, config.maxPositions - promptTokens),
        stopAtEos: false,
        signal,
      }))
        if (token !== undefined) tokens++;
      best.prefill = Math.max(best.prefill, (1000 * promptTokens) / (read - start));
      best.decode = Math.max(best.decode, (1000 * tokens) / (performance.now() - read));
    } finally {
      sequence.destroy();
    }
  }
  signal.throwIfAborted();
  return best;
}
