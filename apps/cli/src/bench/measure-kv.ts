import type { Policy } from '@kv/core';
import { loadModel, Sequence } from '@kv/models';
import type { Budget, Model } from '@kv/models';
import { openRuntime } from '../engine.ts';
import type { EngineChoice } from '../engine.ts';
import { BLOCK, speeds } from './bench-job.ts';
import type { BenchJob, EngineTimes } from './bench-job.ts';
import { timeRun } from './timed.ts';

export interface EventRun {
  readonly policies: readonly { readonly name: string; readonly policy: Policy }[];
  readonly budget: Budget;
}

/** Measures an engine of this project. Undefined if it resolves to an engine in `known`. */
export async function measureOurs(
  choice: EngineChoice,
  path: string,
  cwd: string,
  job: BenchJob,
  { policies, budget }: EventRun,
  known: ReadonlySet<string>,
): Promise<EngineTimes | undefined> {
  const before = process.memoryUsage.rss(),
    runtime = await openRuntime(choice, cwd, job.threads);
  let model: Model | undefined;
  try {
    model = await loadModel(path, { runtime, signal: job.signal });
    const { engine } = model;
    if (known.has(engine)) return undefined;
    let cache = 0;
    const speed = await speeds(job, async (ids) => {
      const { report, ...speed } = await timeRun(model!, ids, { steps: job.decode, block: BLOCK, signal: job.signal }); // set above
      cache = Math.max(cache, report.bytes.peak);
      return speed;
    });
    const events: EngineTimes['events'][number][] = [];
    for (const { name, policy } of policies) {
      const turns: EngineTimes['events'][number]['turns'][number][] = [];
      for (let turn = 0; turn < job.turns; turn++) turns.push(await event(model, policy, budget, job));
      events.push({ policy: name, turns });
    }
    return { name: choice, engine, speed, events, memory: { cache, process: process.memoryUsage.rss() - before } };
  } finally {
    model?.destroy();
    runtime.close();
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
