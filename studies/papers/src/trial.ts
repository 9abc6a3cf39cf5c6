import { Sequence, slotScores } from '@kv/models';
import { spearman } from '@kv/tasks';
import { mean, slotsNow, surprise, using } from '@kv/evaluation/shared';
import { answered } from './answers.ts';
import { hidden } from './hidden.ts';
import type { ByArm, PaperJob, PaperResult } from './jobs.ts';
import { policyOf, specOf } from './jobs.ts';
import { isAsked, promptFor } from './prompts.ts';
import { retrievalsOf } from './retrievals.ts';
import { byArm, forEach } from './tried.ts';
import type { PaperBench, Tried } from './tried.ts';
import type { Arm, Plan, Task } from './types.ts';
import { windowOf } from './windows.ts';

/** Returns the mean -ln probability of `targets[i]` under row i, in nats. */
export const meanSurprise = (rows: readonly Float32Array[], targets: readonly number[]): number =>
  mean(targets.map((next, i) => surprise(rows[i], next)));

type Of<K extends Task['kind']> = Extract<Task, { readonly kind: K }>;

/** Runs one job of a plan. */
export async function runPaperJob(
  bench: PaperBench,
  { tasks }: Pick<Plan, 'tasks'>,
  { task, trial, arms }: PaperJob,
): Promise<PaperResult> {
  const started = performance.now(),
    numbers = await runTrial(bench, task, tasks[task], trial, arms);
  return { task, spec: specOf(tasks[task]), trial, numbers, seconds: (performance.now() - started) / 1000 };
}

/** Runs every arm on one prompt. Arms that evict after prefill share one prefill. */
export async function runTrial(
  bench: PaperBench,
  name: string,
  task: Task,
  trial: number,
  arms: readonly Arm[],
): Promise<ByArm> {
  const { model, names, sentences, embedded, seed } = bench;
  const tried = await Promise.all(
    arms.map(async (arm): Promise<Tried> => ({ arm, policy: await policyOf(arm.policy, names, trial) })),
  );
  if (isAsked(task)) {
    const source = { encode: model.tokenizer.encode, sentences, embedded };
    return answered(bench, task, promptFor(task, source, `papers/${seed}/${name}/${trial}`, trial), tried);
  }
  if (task.kind === 'continuation') return continued(bench, task, trial, tried);
  if (task.kind === 'prompt') return read(bench, task, trial, tried);
  return task.kind === 'ranks' ? ranked(bench, task, trial, tried) : spent(bench, task, trial, tried);
}

function continued(
  bench: PaperBench,
  { context, follow, block, every, witnessed }: Of<'continuation'>,
  trial: number,
  tried: readonly Tried[],
): Promise<ByArm> {
  const ids = windowOf(bench, context + follow, trial),
    after = ids.slice(context);
  let seen: ReturnType<typeof hidden>;
  const observer = witnessed && (() => (seen = hidden()));
  return forEach(bench, ids.slice(0, context), { block, observer }, tried, async (sequence, { arm }) => {
    if (every === undefined) {
      const before = slotsNow(sequence);
      await sequence.append(after, { rows: follow });
      return { nll: meanSurprise(await sequence.logits(), after.slice(1)), slots: before + follow / 2 };
    }
    let nll = 0;
    const slots: number[] = [];
    for (const [i, token] of after.entries()) {
      await sequence.step(token, arm.budget === undefined ? undefined : every);
      slots.push(slotsNow(sequence));
      // a step leaves the logits of its token
      if (i + 1 < follow) nll += surprise((await sequence.logits()).at(-1)!, after[i + 1]);
    }
    const shown = sequence.observer && seen.numbers();
    return {
      nll: nll / (follow - 1),
      slots: mean(slots),
      ...(await retrievalsOf(sequence, shown?.slots, follow, context + follow / 2)),
      ...shown,
    };
  });
}

function read(bench: PaperBench, { tokens }: Of<'prompt'>, trial: number, tried: readonly Tried[]): Promise<ByArm> {
  const ids = windowOf(bench, tokens, trial);
  return byArm(tried, ({ policy }) =>
    using(new Sequence(bench.model), async (sequence) => {
      await sequence.prefill(ids, { policy, rows: tokens });
      return { nll: meanSurprise(await sequence.logits(), ids.slice(1)) };
    }),
  );
}

async function ranked(
  bench: PaperBench,
  { tokens, with: other }: Of<'ranks'>,
  trial: number,
  tried: readonly Tried[],
): Promise<ByArm> {
  const { model, names } = bench,
    second = await policyOf(other, names);
  return using(new Sequence(model), async (sequence) => {
    await sequence.prefill(windowOf(bench, tokens, trial), {
      policies: [second, ...tried.map(({ policy }) => policy)],
    });
    return byArm(tried, async ({ policy }) => {
      const layers: number[] = [];
      for (let l = 0; l < model.config.layers; l++) {
        const [a, b] = [await slotScores(sequence, policy, l), await slotScores(sequence, second, l)];
        layers.push(mean(a.map((row, g) => spearman(row, b[g]))));
      }
      return { spearman: mean(layers), spearmanLeast: Math.min(...layers) };
    });
  });
}

/**
 * Measures time and bytes of each arm separately, in an order that rotates with the trial, so that no arm is always
 * first.
 */
function spent(
  bench: PaperBench,
  { tokens, follow, every }: Of<'costs'>,
  trial: number,
  tried: readonly Tried[],
): Promise<ByArm> {
  const ids = windowOf(bench, tokens + follow, trial),
    prompt = ids.slice(0, tokens),
    turned = tried.map((_, i) => tried[(i + trial) % tried.length]);
  return byArm(turned, ({ arm: { budget }, policy }) =>
    using(new Sequence(bench.model), (apart) =>
      using(new Sequence(bench.model), async (sequence) => {
        // a separate event is timed with the passes that it asks for
        await apart.prefill(prompt, { policies: [policy] });
        const started = performance.now();
        await apart.evict(policy, budget ?? '100%');
        const event = performance.now() - started;
        const turn = performance.now();
        await sequence.prefill(prompt, { policy, budget });
        for (const token of ids.slice(tokens)) await sequence.step(token, every);
        const turnTime = Math.log(performance.now() - turn);
        return {
          eventShare: event / apart.stats.times.prefill,
          stepTime: Math.log(sequence.stats.times.decode / follow),
          turnTime,
          peakBytes: Math.log(sequence.memory.ledger.bytes().peak),
          slots: slotsNow(sequence),
        };
      }),
    ),
  );
}
