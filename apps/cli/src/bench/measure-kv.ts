import { slotHeads } from '@kv/checkpoints';
import type { Policy } from '@kv/core';
import { compile } from '@kv/core/engine';
import { keyValueBytes, slotModel, viewsActing } from '@kv/engine';
import { loadModel, Sequence } from '@kv/models';
import type { Budget, CacheForm, CacheUsage, Model } from '@kv/models';
import { openRuntime } from '../engine.ts';
import type { EngineChoice } from '../engine.ts';
import { BLOCK, speeds } from './bench-job.ts';
import type { BenchJob, EngineTimes, ViewRun } from './bench-job.ts';
import { timeRun } from './timed.ts';

/** What is measured on engines of this project alone. */
export interface OwnRun {
  readonly policies: readonly { readonly name: string; readonly policy: Policy }[];
  readonly budget: Budget;
  /** How caches are stored. @defaultValue the engine's choice */
  readonly cache: CacheForm | undefined;
  /** Called before an engine is measured. */
  onLoaded(model: Model): void;
}

/** Measures an engine of this project. Undefined if it resolves to an engine in `known`. */
export async function measureOurs(
  choice: EngineChoice,
  path: string,
  cwd: string,
  job: BenchJob,
  { policies, budget, cache: form, onLoaded }: OwnRun,
  known: ReadonlySet<string>,
): Promise<EngineTimes | undefined> {
  const before = process.memoryUsage.rss(),
    runtime = await openRuntime(choice, cwd, job.threads);
  let model: Model | undefined;
  try {
    model = await loadModel(path, { runtime, cache: form, signal: job.signal });
    const { engine } = model;
    if (known.has(engine)) return undefined;
    onLoaded(model);
    let cache: CacheUsage | undefined;
    const speed = await speeds(job, async (ids) => {
      const { report, ...speed } = await timeRun(model!, ids, { steps: job.decode, block: BLOCK, signal: job.signal }); // set above
      if (!cache || report.cache.peakBytes > cache.peakBytes) ({ cache } = report);
      return speed;
    });
    const events: EngineTimes['events'][number][] = [];
    for (const { name, policy } of policies) {
      if (!compile(policy).evicts) continue;
      const turns: EngineTimes['events'][number]['turns'][number][] = [];
      for (let turn = 0; turn < job.turns; turn++) turns.push(await event(model, policy, budget, job));
      events.push({ policy: name, turns });
    }
    const views: ViewRun[] = [];
    for (const { name, policy } of policies)
      if (viewsActing(compile(policy), 'decode').length > 0) views.push(await underViews(model, name, policy, job));
    return {
      name: choice,
      engine,
      speed,
      events,
      views,
      ...(cache && { cache }),
      memory: { process: process.memoryUsage.rss() - before },
    };
  } finally {
    model?.destroy();
    runtime.close();
  }
}

/** Decodes under a policy and with the full cache, a token each in turn. */
async function underViews(
  model: Model,
  name: string,
  policy: Policy,
  { prompts, decode, signal }: BenchJob,
): Promise<ViewRun> {
  const ids = prompts[prompts.length - 1],
    [full, viewed] = [new Sequence(model), new Sequence(model)],
    { layers, queryHeads, attention, ...config } = slotModel(model.config),
    // a mean over layers, whose heads may differ in width
    pair = slotHeads(config).reduce((sum, { headDim }) => sum + keyValueBytes(model.cacheForm, headDim), 0) / layers,
    ratios: number[] = [];
  try {
    await full.prefill(ids, { signal });
    await viewed.prefill(ids, { policy, signal });
    const { counters } = viewed.memory.caches.context,
      before = { ...counters },
      took = async (sequence: Sequence, token: number): Promise<number> => {
        signal.throwIfAborted();
        const start = performance.now();
        await sequence.step(token);
        return performance.now() - start;
      };
    for (let i = 0; i < decode; i++) {
      const token = ids[i % ids.length],
        whole = await took(full, token);
      ratios.push(whole / (await took(viewed, token)));
    }
    const { shownSlots = 0, viewReads } = counters,
      slots = (shownSlots - (before.shownSlots ?? 0)) / decode,
      numbers = viewReads === undefined ? undefined : (viewReads - (before.viewReads ?? 0)) / decode,
      length = ids.length + (decode + 1) / 2;
    let seen = 0;
    for (let l = 0; l < layers; l++) seen += Math.min(length, attention.windows[l] ?? Infinity);
    return {
      policy: name,
      tokens: ids.length,
      ratios,
      ...(slots > 0 && {
        counted: {
          slots,
          of: queryHeads * seen,
          ...(numbers !== undefined && { numbers, bytes: pair * slots + 4 * numbers }),
        },
      }),
    };
  } finally {
    full.destroy();
    viewed.destroy();
  }
}

async function event(
  model: Model,
  policy: Policy,
  budget: Budget,
  { prompts: [ids], signal }: BenchJob,
): Promise<EngineTimes['events'][number]['turns'][number]> {
  const sequence = new Sequence(model);
  try {
    await sequence.prefill(ids, { policy, budget, signal });
    const { prefill, score, settle, compact } = sequence.stats.times,
      ms = score + settle + compact;
    return { ms, share: ms / (prefill - ms) };
  } finally {
    sequence.destroy();
  }
}
