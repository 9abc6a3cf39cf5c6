import { attentionLast, KvError } from '@kv/core';
import { isInputSignal, settleOwn, union } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { slotModel } from '../decoder/keeps.ts';
import { expectIds } from '../expect-given.ts';
import { expectKept, noEffect } from '../generate/policies.ts';
import { evicts } from '../memory/active-policy.ts';
import type { FeedOptions, Output } from '../memory/feed.ts';
import type { Memory } from '../memory/memory.ts';
import type { Observer } from '../memory/observer.ts';
import { expectRoom, expectRoomUnmoved } from '../memory/make-room.ts';
import { expectFed } from '../memory/providers.ts';
import type { Model } from '../memory/runtime.ts';
import { expectRecorded, isRecorded, observationPlan } from '../memory/observation-plan.ts';
import { PREFILL_PARTS } from '../options.ts';
import type { PrefillPartsOptions } from '../options.ts';
import { policyOf } from '../policy-text.ts';
import { yieldToEvents } from '../yield-to-events.ts';
import type { Outputs } from './outputs.ts';
import { onlyEventsRead, readByHooks, waits, type PolicySchedule } from './policy-schedule.ts';
import type { SequenceStats } from './stats.ts';

/** The parts of a sequence that a prompt is fed to. */
export interface SequenceParts {
  readonly model: Model;
  readonly memory: Memory;
  readonly schedule: PolicySchedule;
  readonly outputs: Outputs;
  readonly stats: SequenceStats;
  readonly observer: Observer | undefined;
  /** Discards speculative steps. */
  rollback(): void;
}

/**
 * Feeds a prompt part by part, and yields how many of its tokens were fed.
 *
 * @param gather whether the logits of all parts are kept, or those of the newest part
 */
export async function* prefill(
  sequence: SequenceParts,
  ids: readonly number[],
  options: PrefillPartsOptions,
  gather: boolean,
): AsyncGenerator<number, void> {
  const { model, memory, schedule, observer } = sequence,
    { progress } = memory;
  const { budget, block, part, rows, forget, signal, ...texts } = settleOwn('prefill', PREFILL_PARTS, options),
    policy = texts.policy === undefined ? undefined : await policyOf(texts.policy),
    policies = await Promise.all((texts.policies ?? []).map(policyOf));
  memory.expectUsable();
  expectIds(ids, model.config.vocab);
  if (ids.length === 0) throw new KvError('prompt', 'must have at least one token, got none');
  const compiled = policy ? schedule.compiled(policy) : schedule.active.policy;
  if (budget !== undefined && policies.length === 0 && !compiled.evicts) {
    expectKept(policy, budget);
    schedule.note(noEffect(policy, budget));
  }
  const { needs, label, reach } = compiled,
    active = schedule.follow(compiled, schedule.allowance(compiled, budget, progress.length + ids.length));
  expectAlike(compiled, model);
  const acts = evicts(active),
    size = block ?? compiled.hooks('cadence')[0]?.block ?? ids.length,
    late = waits(compiled, size < ids.length);
  expectRoom(
    memory.caches,
    acts && !late && size < ids.length
      ? Math.min(ids.length, Math.max(size, size + active.budget.slots - memory.slots.longest))
      : ids.length,
    'prompt',
  );
  // slots that left before, or in a block, make room for what is fed
  if (acts && (late || size >= ids.length) && memory.slots.longest === progress.length)
    expectFed(memory.caches.context, compiled, ids);
  if (active.attends) expectRoomUnmoved(memory.caches, ids.length, 'prompt', active.attends.label);
  const start = progress.length,
    read = readByHooks(compiled),
    sums = needs.filter((signal) => observationPlan([signal]).accumulated);
  // what slots have of the layer's input is recorded from the first token on, or never
  if (start > 0) expectRecorded([...(acts ? needs : []), ...read].filter(isInputSignal), memory.caches);
  if (start > 0 && !isRecorded(sums, memory.caches))
    schedule.note(
      `'${compiled.methodName}' sums attention from token ${start} on: what the tokens before it looked at was not remembered`,
    );
  sequence.rollback();
  memory.caches.observe(
    union(
      needs, // without a budget too: the policy may evict later
      observer ? [attentionLast] : [],
      read,
      ...policies.flatMap((p) => p.atoms.map((atom) => atom.needs)),
    ),
  );
  if (acts && late && size < ids.length)
    schedule.note(
      `${label} looks at the whole ${reach === 'model' ? 'model' : 'prompt'}: it evicts once, after prefill, and the peak is the whole prompt in every layer`,
    );
  const most = observationPlan(acts ? needs : []).block ? size : (part ?? size);
  const before = { active: schedule.active, promptLength: progress.promptLength };
  progress.setPrompt(ids.length);
  schedule.active = active;
  let fed = 0;
  try {
    for await (fed of feedBlocks(sequence, ids, size, { part: most, rows, signal, acts, late, forget, gather }))
      yield fed;
  } finally {
    if (progress.length === start)
      [schedule.active, progress.promptLength] = [before.active, before.promptLength]; // refused
    else if (fed < ids.length) progress.setPrompt(0); // what was fed is the prompt now
  }
}

/** Feeds a prompt block by block, part by part, with the event that ends each block. */
async function* feedBlocks(
  sequence: SequenceParts,
  ids: readonly number[],
  size: number,
  {
    part: most,
    rows,
    signal,
    acts,
    late,
    forget,
    gather,
  }: {
    readonly part: number;
    readonly rows: number;
    readonly signal: AbortSignal | undefined;
    readonly acts: boolean;
    readonly late: boolean;
    readonly forget: boolean;
    readonly gather: boolean;
  },
): AsyncGenerator<number, void> {
  const { memory, schedule, outputs, stats, observer } = sequence;
  for (let from = 0; from < ids.length; ) {
    await yieldToEvents(signal);
    signal?.throwIfAborted();
    const started = performance.now(),
      end = Math.min(ids.length, size * (Math.floor(from / size) + 1)),
      part = ids.slice(from, Math.min(end, from + most)),
      to = from + part.length,
      whole = part.length === end - size * Math.floor(from / size),
      after = ids.length - to,
      eventFollows = acts && to === end && (late ? after === 0 : !whole);
    if (!gather && from > 0) outputs.replace();
    const output = await feed(sequence, part, Math.max(0, rows - after), {
      evict: acts && !late && whole,
      eventFollows,
      freeObservations: forget && after === 0 && onlyEventsRead(schedule.active.policy, observer !== undefined),
      signal,
    });
    // the logits that were there stay until it is certain that the prompt is fed
    if (from === 0) outputs.replace();
    outputs.append(output);
    if (to === end) stats.counts.blocks++;
    if (eventFollows) await schedule.event(signal);
    memory.ledger.sample('prefill', part.length);
    stats.times.prefill += performance.now() - started;
    from = to;
    yield from;
  }
}

/** Feeds a block; with `evict` every layer is back at its budget before the next one starts. */
export async function feed(
  { memory, schedule, stats }: Pick<SequenceParts, 'memory' | 'schedule' | 'stats'>,
  ids: readonly number[],
  rows: number,
  {
    evict = false,
    eventFollows = false,
    freeObservations = false,
    signal,
  }: Pick<FeedOptions, 'eventFollows' | 'signal'> & {
    readonly evict?: boolean;
    readonly freeObservations?: boolean;
  } = {},
): Promise<Output> {
  const plan = evict ? schedule.plan(memory.slots.lengths(ids.length)) : undefined;
  const { output, event } = await memory.feed(ids, {
    phase: 'prefill',
    active: schedule.active,
    rows,
    eventFollows,
    signal,
    ...(plan && { evict: { plan, times: stats.times, freeObservations } }),
  });
  if (plan && event) schedule.done(plan, event);
  return output;
}

/**
 * Checks layers' rotations where tokens are frozen. @throws KvError where frozen tokens would take keys from a layer
 * with other rotations
 */
function expectAlike({ hooks, methodName }: CompiledPolicy, { config }: Model): void {
  const { ropes, attention } = slotModel(config),
    [hook] = hooks('freeze'),
    other = ropes.findIndex((rope, l) => l > 0 && rope !== ropes[l - 1]);
  if (!hook?.copies || other <= 0) return;
  const kinds = attention.windows.some((window) => window < Infinity) ? 'sliding and global layers' : 'layers';
  throw new KvError(
    methodName,
    `${hook.name} would copy the keys of early tokens from the layer below, and this model's ${kinds} turn keys by RoPE bases of their own (layer ${other} otherwise than layer ${other - 1}): leave reuse=kv out, so that each layer projects its own keys, or take a policy without ${hook.name}`,
  );
}
