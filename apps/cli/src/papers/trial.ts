import { compile } from '@kv/core';
import type { Policy } from '@kv/core';
import { decode, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { retained } from '../needle/experiment.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { armKey } from './arms.ts';
import { retrievalsOf } from './retrievals.ts';
import { meanSurprise, surprise } from './log-likelihood.ts';
import { isAsked, promptFor } from './prompts.ts';
import type { Asked, Prompt, Question } from './prompts.ts';
import { spearman } from './spearman.ts';
import type { Arm, Numbers, Task } from './types.ts';
import { windowOf } from './windows.ts';

/** What all trials share. */
export interface Bench {
  readonly model: Model;
  readonly sentences: readonly string[];
  /** The book's part for these prompts, as ids. */
  readonly prose: readonly number[];
  readonly embedded: boolean;
  readonly seed: number;
  readonly cwd: string;
}
interface Tried { readonly arm: Arm; readonly policy: Policy }
type Of<K extends Task['kind']> = Extract<Task, { readonly kind: K }>;

/** Every arm on one prompt, by name. Arms that evict after prefill share it. */
export async function runTrial(bench: Bench, name: string, task: Task, trial: number, arms: readonly Arm[]): Promise<Readonly<Record<string, Numbers>>> {
  const tried = await Promise.all(arms.map(async (arm): Promise<Tried> => ({ arm, policy: await resolvePolicy(arm.policy, { cwd: bench.cwd, seed: trial }) })));
  if (isAsked(task)) {
    const { model, sentences, embedded, seed } = bench;
    const prompt = promptFor(task, { encode: model.tokenizer.encode, sentences, embedded }, `papers/${seed}/${name}/${trial}`, trial);
    return answered(bench, task, prompt, tried);
  }
  if (task.kind === 'continuation') return continued(bench, task, trial, tried);
  if (task.kind === 'prompt') return read(bench, task, trial, tried);
  return task.kind === 'ranks' ? ranked(bench, task, trial, tried) : spent(bench, task, trial, tried);
}

/** A sequence for each arm: forks of one prefill, or, by blocks, its own. */
async function forEach({ model }: Bench, ids: readonly number[], block: number | undefined, tried: readonly Tried[], measure: (sequence: Sequence, tried: Tried) => Promise<Numbers>): Promise<Readonly<Record<string, Numbers>>> {
  const out: Record<string, Numbers> = {};
  const whole = new Sequence(model);
  try {
    // What acts while tokens pass is told so before the prompt does.
    const apart = (policy: Policy): boolean => { const { evicts, hooks } = compile(policy); return (evicts && block !== undefined) || hooks('view').length > 0; };
    const shared = tried.filter(({ policy }) => !apart(policy));
    if (shared.length > 0) await whole.prefill(ids, { policies: shared.map(({ policy }) => policy) });
    for (const one of tried) {
      const { arm, policy } = one, sequence = apart(policy) ? new Sequence(model) : whole.fork();
      try {
        if (apart(policy)) await sequence.prefill(ids, { policy, budget: compile(policy).evicts ? arm.budget : undefined, block });
        else await sequence.evict(policy, arm.budget ?? '100%');
        out[armKey(arm)] = await measure(sequence, one);
      } finally {
        sequence.destroy();
      }
    }
  } finally {
    whole.destroy();
  }
  return out;
}

const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / numbers.length;
/** Slots of a layer and KV head now, on average. */
const slotsNow = (sequence: Sequence): number => mean(sequence.kept().flat().map(({ length }) => length));

function answered(bench: Bench, task: Asked, { documentIds, questions, valueTokens }: Prompt, tried: readonly Tried[]): Promise<Readonly<Record<string, Numbers>>> {
  const aware = task.kind === 'needle' && task.mode === 'aware';
  return forEach(bench, aware ? [...documentIds, ...questions[0]!.ids] : documentIds, undefined, tried, async (sequence) => {
    const held = retained(sequence.kept(), valueTokens), slots: number[] = [];
    // Calls are a form that the embedded model was never trained on.
    if (bench.embedded && task.kind === 'credential') return { retained: held, slots: slotsNow(sequence) };
    let hit = 1;
    for (const question of questions) {
      const fork = questions.length > 1 ? sequence.fork() : sequence;
      try {
        if (!aware) await fork.append(question.ids);
        if (!await isRight(fork, question, slots)) hit = 0;
      } finally {
        if (fork !== sequence) fork.destroy();
      }
    }
    return { hit, retained: held, slots: mean(slots) };
  });
}

/** Answers without a stop, so that every arm's cache is averaged over as many tokens. */
async function isRight(sequence: Sequence, { right, newTokens }: Question, slots: number[]): Promise<boolean> {
  let text = '';
  for await (const chunk of decode(sequence, { maxNewTokens: newTokens })) {
    text += chunk.text;
    slots.push(slotsNow(sequence));
  }
  return right(text);
}

async function continued(bench: Bench, { context, follow, block, every }: Of<'continuation'>, trial: number, tried: readonly Tried[]): Promise<Readonly<Record<string, Numbers>>> {
  const ids = windowOf(bench, context + follow, trial), after = ids.slice(context);
  return forEach(bench, ids.slice(0, context), block, tried, async (sequence, { arm }) => {
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
      if (i + 1 < follow) nll += surprise(sequence.logits.at(-1)!, after[i + 1]!);
    }
    return { nll: nll / (follow - 1), slots: mean(slots), ...await retrievalsOf(sequence, Number(arm.budget) || undefined, follow, context + follow / 2) };
  });
}

async function read(bench: Bench, { tokens }: Of<'prompt'>, trial: number, tried: readonly Tried[]): Promise<Readonly<Record<string, Numbers>>> {
  const ids = windowOf(bench, tokens, trial), out: Record<string, Numbers> = {};
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

async function ranked(bench: Bench, { tokens, with: other }: Of<'ranks'>, trial: number, tried: readonly Tried[]): Promise<Readonly<Record<string, Numbers>>> {
  const { model } = bench, second = await resolvePolicy(other, { cwd: bench.cwd }), sequence = new Sequence(model), out: Record<string, Numbers> = {};
  try {
    await sequence.prefill(windowOf(bench, tokens, trial), { policies: [second, ...tried.map(({ policy }) => policy)] });
    for (const { arm, policy } of tried) {
      const layers: number[] = [];
      for (let l = 0; l < model.config.layers; l++) {
        const [a, b] = [await sequence.scores(policy, l), await sequence.scores(second, l)];
        layers.push(mean(a.map((row, g) => spearman(row, b[g]!))));
      }
      out[armKey(arm)] = { spearman: mean(layers), spearmanLeast: Math.min(...layers) };
    }
  } finally {
    sequence.destroy();
  }
  return out;
}

/** Each arm by itself, in an order that turns with the trial: what runs first is not always the same. */
async function spent(bench: Bench, { tokens, follow, every }: Of<'costs'>, trial: number, tried: readonly Tried[]): Promise<Readonly<Record<string, Numbers>>> {
  const ids = windowOf(bench, tokens + follow, trial), prompt = ids.slice(0, tokens), out: Record<string, Numbers> = {};
  for (const i of tried.keys()) {
    const { arm, policy } = tried[(i + trial) % tried.length]!, apart = new Sequence(bench.model), sequence = new Sequence(bench.model);
    try {
      // By itself, the event is timed with the passes that it asks for.
      await apart.prefill(prompt, { policies: [policy] });
      const started = performance.now();
      await apart.evict(policy, arm.budget ?? '100%');
      const event = performance.now() - started;
      await sequence.prefill(prompt, { policy, budget: arm.budget });
      for (const token of ids.slice(tokens)) await sequence.step(token, every);
      out[armKey(arm)] = { eventShare: event / apart.times.prefill, stepTime: Math.log(sequence.times.decode / follow), peakBytes: Math.log(sequence.bytes().peak), slots: slotsNow(sequence) };
    } finally {
      apart.destroy();
      sequence.destroy();
    }
  }
  return out;
}
