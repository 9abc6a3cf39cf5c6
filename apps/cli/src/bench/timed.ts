import { generate } from '@kv/models';
import type { GenerateResult, Model } from '@kv/models';
import { speedOf, type Speed } from './bench-job.ts';

/** Prefills a prompt, which ends with the first token, and generates `steps` more. @throws once aborted */
export async function timeRun(
  model: Model,
  ids: readonly number[],
  { steps, block, signal }: { readonly steps: number; readonly block: number; readonly signal: AbortSignal },
): Promise<Speed & Pick<GenerateResult, 'report'>> {
  const start = performance.now(),
    at: number[] = [],
    generation = generate(model, { ids, block, maxNewTokens: steps + 1, signal });
  for await (const _ of generation) at.push(performance.now());
  signal.throwIfAborted();
  return { ...speedOf(ids.length, start, at), report: (await generation).report };
}
