import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { compile } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { openGpu } from '@kv/gpu';
import { gpuRuntime } from '@kv/engine-webgpu';
import { sharedGpu } from '@kv/gpu-testing';
import { generate, loadModel } from '@kv/models';
import type { GenerateOptions, HostModel, Model } from '@kv/models';
import { withFiles } from './free/sidecar-files.ts';
import { covering } from './free/cover.ts';
import { eventOf, leastSlots, labelOf, policyOf } from './free/rows.ts';
import { shaken, shakenModel } from './free/tie.ts';
import { referenceEngine } from '@kv/engine';

const gpu = await sharedGpu(openGpu);
afterAll(() => {
  gpu?.destroy();
  if (gpu) expect(gpu.ledger).toMatchObject({ live: 0, allocated: 0, buffers: 0 });
});

/** Small models of one architecture each: plain, sliding windows, tied heads, norms of queries and keys, softcaps. */
const MODELS = ['llama', 'mistral', 'phi3', 'qwen3', 'gemma2'].map((name) =>
  fileURLToPath(new URL(`../../model-testing/fixtures/${name}`, import.meta.url)),
);
/**
 * A cache is never smaller than a head's number of channels: with fewer keys every leverage is about 1, and only
 * rounding distinguishes them.
 */
const PROMPT = 44,
  BUDGET = 20,
  BLOCK = 24,
  NEW = 5,
  TRIES = 40;

/** Returns tokens and what was kept in every layer and head, or the error sentence if it was refused. */
async function outcome(model: Model, options: GenerateOptions): Promise<readonly string[]> {
  try {
    const {
      tokens,
      report: { kept, counts, mostSlots },
    } = await generate(model, options);
    return [
      `tokens ${tokens.join(' ')}`,
      `${counts['events']} events, at most ${mostSlots} slots`,
      ...kept.flatMap((heads, l) => heads.map((set, g) => `layer ${l}, head ${g}: ${set.join(' ')}`)),
    ];
  } catch (error) {
    return [`refused: ${error instanceof Error ? error.message : String(error)}`];
  }
}

/** Loads the model twice, with every file of statistics: its caches on the host over plain loops, and on the device. */
async function twice(folder: string): Promise<readonly [host: HostModel, device: Model]> {
  const { path, model } = await withFiles(folder, { engine: referenceEngine() });
  return [model, await loadModel(path, { runtime: gpuRuntime(gpu!) })];
}

/** KV_FULL=1: half an hour. */
test.skipIf(!gpu || process.env['KV_FULL'] !== '1')(
  'any two choices that types admit generate on the device what they generate on the host',
  async () => {
    const models: (readonly [HostModel, Model])[] = [],
      { rows } = covering(2),
      wrong: string[] = [],
      count = { refused: 0, ties: 0 };
    for (const folder of MODELS) models.push(await twice(folder));
    for (const [i, row] of rows.entries()) {
      if (compile(eventOf(row)).levels) continue; // a code may be a step off, which a shaken score does not show: see levels.device.test.ts
      const [host, device] = models[i % models.length],
        label = labelOf(row),
        budget = Math.max(BUDGET, leastSlots(row, PROMPT, BUDGET), leastSlots(row, PROMPT + NEW, PROMPT));
      const ids = Array.from({ length: PROMPT }, (_, at) => (at * 37 + 11) % Math.min(64, host.config.vocab)),
        blocks = i % 2 === 1 && { block: BLOCK, every: 2 };
      const run = (model: Model, policy: Policy): Promise<readonly string[]> =>
        outcome(model, { ids, policy, budget, maxNewTokens: NEW, stopAtEos: false, ...blocks });
      const want = await run(host, policyOf(row)),
        got = await run(device, policyOf(row));
      count.refused += Number(want[0].startsWith('refused'));
      if (want.join() === got.join()) continue;
      const near = new Set<string>();
      for (let seed = 1; seed <= TRIES && !got.every((line) => near.has(line)); seed++)
        for (const line of await run(shakenModel(host, seed), policyOf(row, shaken(seed)))) near.add(line);
      const tie = got.every((line) => near.has(line));
      if (tie) count.ties++;
      else
        wrong.push(
          `${i}, ${host.config.architecture}: ${label}, budget ${budget}\n  host ${want.join('\n  ')}\n  device ${got.join('\n  ')}`,
        );
    }
    for (const model of models.flat()) model.destroy();
    console.log(
      `${gpu!.name}: ${rows.length} compositions, ${count.refused} of them refused on the host too, ${count.ties} different by a tie\n${wrong.join('\n')}`,
    );
    expect(wrong).toEqual([]);
  },
  4 * 3600_000,
);
