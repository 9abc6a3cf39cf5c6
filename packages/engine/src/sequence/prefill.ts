import { attentionLast, KvError } from '@kv/core';
import { compile, settleOwn, union } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { expectIds } from '../decoder/decoder.ts';
import { courseOf, evicts, type EventTimes } from '../memory/active-policy.ts';
import type { FeedOptions, Memory, Output } from '../memory/memory.ts';
import type { Observer } from '../memory/observer.ts';
import { expectRoom } from '../memory/make-room.ts';
import type { Model } from '../memory/runtime.ts';
import { watchOf } from '../memory/watch.ts';
import { PREFILL_PARTS } from '../options.ts';
import type { PrefillPartsOptions } from '../options.ts';
import { policyOf } from '../policy-text.ts';
import { yieldToEvents } from '../yield-to-events.ts';
import type { Outputs } from './outputs.ts';
import { waits, type PolicySchedule } from './policy-schedule.ts';

/** The parts of a sequence that a prompt is fed to. */
export interface FeedOutcome {
  readonly model: Model;
  readonly memory: Memory;
  readonly schedule: PolicySchedule;
  readonly outputs: Outputs;
  observer(): Observer | undefined;
  readonly counts: { blocks: number };
  readonly times: EventTimes & { prefill: number };
  /** Discards speculative steps. */
  rollback(): void;
}

/**
 * Feeds a prompt part by part, and yields how many of its tokens were fed.
 *
 * @param gather whether the logits of all parts are kept, or those of the newest part
 */
export async function* prefill(
  sequence: FeedOutcome,
  ids: readonly number[],
  options: PrefillPartsOptions,
  gather: boolean,
): AsyncGenerator<number, void> {
  const { model, memory, schedule, outputs } = sequence;
  const { budget, block, part, rows, forget, signal, ...texts } = settleOwn('prefill', PREFILL_PARTS, options),
    policy = texts.policy === undefined ? undefined : await policyOf(texts.policy),
    policies = await Promise.all((texts.policies ?? []).map(policyOf));
  memory.expectWhole();
  if (ids.length === 0) throw new KvError('prompt', 'must have at least one token, got none');
  expectIds(ids, model.config.vocab);
  const compiled = policy ? compile(policy) : schedule.course.policy;
  const { needs, label, reach } = compiled,
    course = courseOf(compiled, schedule.allowance(compiled, budget, memory.length + ids.length), schedule.course);
  expectAlike(compiled, model);
  const acts = evicts(course),
    size = block ?? compiled.hooks('cadence')[0]?.block ?? ids.length,
    late = waits(compiled, size < ids.length);
  expectRoom(
    memory,
    acts && !late && size < ids.length ? Math.max(size, size + course.budget.slots - memory.longest) : ids.length,
    'prompt',
  );
  memory.prompted(ids.length);
  sequence.rollback();
  schedule.course = course;
  const hooks = [...compiled.hooks('view'), ...compiled.hooks('step')];
  memory.watch(
    union(
      acts ? needs : [],
      sequence.observer() ? [attentionLast] : [],
      ...hooks.map((h) => h.needs),
      ...policies.flatMap((p) => p.atoms.map((atom) => atom.needs)),
    ),
  );
  if (acts && late && size < ids.length)
    schedule.notes.push(
      `${label} looks at the whole ${reach === 'model' ? 'model' : 'prompt'}: it evicts once, after prefill, and the peak is the whole prompt in every layer`,
    );
  const most = watchOf(acts ? needs : []).block ? size : (part ?? size);
  outputs.replace();
  let fed = 0;
  try {
    for await (fed of feedBlocks(sequence, ids, size, { part: most, rows, signal, acts, late, forget, gather }))
      yield fed;
  } finally {
    if (fed < ids.length) memory.prompted(0); // what was fed is the prompt now
  }
}

/** Feeds a prompt block by block, part by part, with the event that ends each block. */
async function* feedBlocks(
  sequence: FeedOutcome,
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
  const { memory, schedule, outputs, counts, times } = sequence;
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
    if (!gather) outputs.replace();
    outputs.append(
      await feed(sequence, part, Math.max(0, rows - after), {
        evict: acts && !late && whole,
        eventFollows,
        forget: forget && after === 0 && schedule.settles(sequence.observer() !== undefined),
        signal,
      }),
    );
    if (to === end) counts.blocks++;
    if (eventFollows) await schedule.event();
    memory.ledger.sample('prefill', part.length);
    times.prefill += performance.now() - started;
    from = to;
    yield from;
  }
}

/** Feeds a block; with `evict` every layer is back at its budget before the next one starts. */
export async function feed(
  { memory, schedule, times }: Pick<FeedOutcome, 'memory' | 'schedule' | 'times'>,
  ids: readonly number[],
  rows: number,
  {
    evict = false,
    eventFollows = false,
    forget = false,
    signal,
  }: Pick<FeedOptions, 'eventFollows' | 'signal'> & { readonly evict?: boolean; readonly forget?: boolean } = {},
): Promise<Output> {
  const plan = evict ? schedule.plan(memory.lengths(ids.length)) : undefined;
  const { output, event } = await memory.feed(ids, {
    phase: 'prefill',
    course: schedule.course,
    rows,
    eventFollows,
    signal,
    ...(plan && { evict: { plan, times, forget } }),
  });
  if (plan && event) schedule.done(plan, event);
  return output;
}

/**
 * Checks layers' rotations where tokens are frozen. @throws KvError where frozen tokens would take keys from a layer
 * with other rotations
 */
function expectAlike({ hooks, methodName: called }: CompiledPolicy, { config: { ropes, attention } }: Model): void {
  const [hook] = hooks('freeze'),
    other = ropes.findIndex((rope, l) => l > 0 && rope !== ropes[l - 1]);
  if (!hook?.copies || other <= 0) return;
  const kinds = attention.windows.some((window) => window < Infinity) ? 'sliding and global layers' : 'layers';
  throw new KvError(
    called,
    `${hook.name} would copy the keys of early tokens from the layer below, and this model's ${kinds} turn keys by RoPE bases of their own (layer ${other} otherwise than layer ${other - 1}): leave reuse=kv out, so that each layer projects its own keys, or take a policy without ${hook.name}`,
  );
}
