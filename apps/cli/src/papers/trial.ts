import { Sequence } from '@kv/models';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { answered } from './answers.ts';
import { armKey } from './arms.ts';
import { hidden } from './hidden.ts';
import { retrievalsOf } from './retrievals.ts';
import { meanSurprise, surprise } from './log-likelihood.ts';
import { isAsked, promptFor } from './prompts.ts';
import { spearman } from './spearman.ts';
import { forEach, mean, slotsNow } from './tried.ts';
import type { Bench, ByArm, Tried } from './tried.ts';
import type { Arm, Numbers, Task } from './types.ts';
import { windowOf } from './windows.ts';

type Of<K extends Task['kind']> = Extract<Task, { readonly kind: K }>;

/** Every arm on one prompt, by name. Arms that evict after prefill share it. */
export async function runTrial(
  bench: Bench,
  name: string,
  task: Task,
  trial: number,
  arms: readonly Arm[],
): Promise<ByArm> {
  const tried = await Promise.all(
    arms.map(
      async (arm): Promise<Tried> => ({
        arm,
        policy: await resolvePolicy(arm.policy, { cwd: bench.cwd, seed: trial }),
      }),
    ),
  );
  if (isAsked(task)) {
    const { model, sentences, embedded, seed } = bench;
    const prompt = promptFor(
      task,
      { encode: model.tokenizer.encode, sentences, embedded },
      `papers/${seed}/${name}/${trial}`,
      trial,
    );
    return answered(bench, task, prompt, tried);
  }
  if (task.kind === 'continuation') return continued(bench, task, trial, tried);
  if (task.kind === 'prompt') return read(bench, task, trial, tried);
  return task.kind === 'ranks' ? ranked(bench, task, trial, tried) : spent(bench, task, trial, tried);
}

async function continued(
  bench: Bench,
  { context, follow, block, every, witnessed }: Of<'continuation'>,
  trial: number,
  tried: readonly Tried[],
): Promise<ByArm> {
  const ids = windowOf(bench, context + follow, trial),
    after = ids.slice(context);
  let seen: ReturnType<typeof hidden>;
  return forEach(
    bench,
    ids.slice(0, context),
    { block, ...(witnessed && { witness: () => (seen = hidden()) }) },
    tried,
    async (sequence, { arm }) => {
      if (every === undefined) {
        const before = slotsNow(sequence);
        await sequence.append(after, { rows: follow });
        return { nll: meanSurprise(sequence.logits, after.slice(1)), slots: before + follow / 2 };
      }
      let nll = 0;
      const slots: number[] = [];
      for (const [i, token] of after.entries()) {
        await sequence.step(token, arm.budget === undefined ? undefined : every);
        slots.push(slotsNow(sequence));
        if (i + 1 < follow) nll += surprise(sequence.logits.at(-1)!, after[i + 1]);
      }
      return {
        nll: nll / (follow - 1),
        slots: mean(slots),
        ...(await retrievalsOf(sequence, Number(arm.budget) || undefined, follow, context + follow / 2)),
        ...(sequence.observer && seen.numbers()),
      };
    },
  );
}

async function read(bench: Bench, { tokens }: Of<'prompt'>, trial: number, tried: readonly Tried[]): Promise<ByArm> {
  const ids = windowOf(bench, tokens, trial),
    out: Record<string, Numbers> = {};
  for (const { arm, policy } of tried) {
    const sequence = new Sequence(bench.model);
    try {
      await sequence.prefill(ids, { policy, rows: tokens });
      out[armKey(arm)] = { nll: meanSurprise(sequence.logits, ids.slice(1)) };
    } finally {
      sequence.destroy();
    }
  }
  return out;
}

async function ranked(
  bench: Bench,
  { tokens, with: other }: Of<'ranks'>,
  trial: number,
  tried: readonly Tried[],
): Promise<ByArm> {
  const { model } = bench,
    second = await resolvePolicy(other, { cwd: bench.cwd }),
    sequence = new Sequence(model),
    out: Record<string, Numbers> = {};
  try {
    await sequence.prefill(windowOf(bench, tokens, trial), {
      policies: [second, ...tried.map(({ policy }) => policy)],
    });
    for (const { arm, policy } of tried) {
      const layers: number[] = [];
      for (let l = 0; l < model.config.layers; l++) {
        const [a, b] = [await sequence.scores(policy, l), await sequence.scores(second, l)];
        layers.push(mean(a.map((row, g) => spearman(row, b[g]))));
      }
      out[armKey(arm)] = { spearman: mean(layers), spearmanLeast: Math.min(...layers) };
    }
  } finally {
    sequence.destroy();
  }
  return out;
}

/** Each arm by itself, in an order that turns with the trial: what runs first is not always the same. */
async function spent(
  bench: Bench,
  { tokens, follow, every }: Of<'costs'>,
  trial: number,
  tried: readonly Tried[],
): Promise<ByArm> {
  const ids = windowOf(bench, tokens + follow, trial),
    prompt = ids.slice(0, tokens),
    out: Record<string, Numbers> = {};
  for (const i of tried.keys()) {
    const { arm, policy } = tried[(i + trial) % tried.length],
      apart = new Sequence(bench.model),
      sequence = new Sequence(bench.model);
    try {
      // By itself, the event is timed with the passes that it asks for.
      await apart.prefill(prompt, { policies: [policy] });
      const started = performance.now();
      await apart.evict(policy, arm.budget ?? '100%');
      const event = performance.now() - started;
      await sequence.prefill(prompt, { policy, budget: arm.budget });
      for (const token of ids.slice(tokens)) await sequence.step(token, every);
      out[armKey(arm)] = {
        eventShare: event / apart.times.prefill,
        stepTime: Math.log(sequence.times.decode / follow),
        peakBytes: Math.log(sequence.bytes().peak),
        slots: slotsNow(sequence),
      };
    } finally {
      apart.destroy();
      sequence.destroy();
    }
  }
  return out;
}
