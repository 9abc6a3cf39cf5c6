import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { CacheUsage } from '@kv/models';
import type { SchedulerObserver } from '../run/job.ts';
import type { Scheduler } from '../run/scheduler.ts';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Prometheus metrics of a server. */
export interface Metrics {
  readonly registry: Registry;
  readonly observed: SchedulerObserver;
  answered(route: string, status: number): void;
  firstToken(seconds: number): void;
  watch(scheduler: Scheduler, cache: Pick<CacheUsage, 'form' | 'bytesPerToken' | 'stateBytes'>): void;
}

export function createMetrics(failed: (cause: unknown) => void): Metrics {
  const registry = new Registry(),
    registers = [registry];
  const requests = new Counter({
    name: 'kv_requests_total',
    help: 'Requests by route and status.',
    labelNames: ['route', 'status'],
    registers,
  });
  const tokens = new Counter({
    name: 'kv_tokens_total',
    help: 'Tokens of prompts, those of them that a cache held already and those that were read, tokens generated, and tokens of finished answers that no layer and head held any more.',
    labelNames: ['kind'],
    registers,
  });
  const slots = new Counter({
    name: 'kv_slots_total',
    help: 'Slots of all layers and KV heads that finished answers kept and dropped.',
    labelNames: ['kind'],
    registers,
  });
  const histogram = (name: string, help: string, buckets: number[] = SECONDS): Histogram =>
    new Histogram({ name, help, buckets, registers });
  const step = histogram('kv_step_seconds', 'Seconds of a step of all running answers.'),
    together = histogram('kv_step_sequences', 'Answers that a step was taken for.', [1, 2, 4, 8, 16, 32, 64]),
    part = histogram('kv_prompt_part_seconds', 'Seconds of one part of a prompt.'),
    waited = histogram('kv_queue_seconds', 'Seconds that prompts waited.'),
    first = histogram('kv_first_token_seconds', 'Seconds from a request to its first token.');
  const exceeded = new Counter({
    name: 'kv_promise_exceeded_total',
    help: 'Sequences that held more than was promised to them.',
    registers,
  });
  return {
    registry,
    observed: {
      step(sequences, milliseconds) {
        step.observe(milliseconds / 1000);
        together.observe(sequences);
      },
      part: (_, milliseconds) => part.observe(milliseconds / 1000),
      waited: (milliseconds) => waited.observe(milliseconds / 1000),
      exceeded: () => exceeded.inc(),
      failed,
      ended({ promptTokens, tokensReused, tokensRead, tokensDropped, completionTokens, keptSlots, droppedSlots }) {
        tokens.inc({ kind: 'prompt' }, promptTokens);
        tokens.inc({ kind: 'reused' }, tokensReused);
        tokens.inc({ kind: 'read' }, tokensRead);
        tokens.inc({ kind: 'dropped' }, tokensDropped);
        tokens.inc({ kind: 'completion' }, completionTokens);
        slots.inc({ kind: 'kept' }, keptSlots);
        slots.inc({ kind: 'dropped' }, droppedSlots);
      },
    },
    answered: (route, status) => requests.inc({ route, status: String(status) }),
    firstToken: (seconds) => first.observe(seconds),
    watch(scheduler, { form, bytesPerToken, stateBytes }) {
      new Gauge({
        name: 'kv_memory_bytes',
        help: 'Bytes in addition to the weights: the limit, those promised, the most ever promised and kept together, and those held.',
        labelNames: ['kind'],
        registers,
        collect() {
          for (const [kind, bytes] of Object.entries(memoryOf(scheduler))) this.set({ kind }, bytes);
        },
      });
      new Gauge({
        name: 'kv_conversations',
        help: 'Conversations whose caches are in memory, and those in the store; requests that went on from a cache, those for which one was loaded, and those that were read again; caches written, dropped from memory, and files that could not be used.',
        labelNames: ['kind'],
        registers,
        collect() {
          for (const [kind, count] of Object.entries(conversationsOf(scheduler))) this.set({ kind }, count);
        },
      });
      new Gauge({
        name: 'kv_cache_bytes_per_token',
        help: 'Bytes that a token adds to a full cache, by the form that caches are stored in.',
        labelNames: ['form'],
        registers,
      }).set({ form }, bytesPerToken);
      if (stateBytes > 0)
        new Gauge({
          name: 'kv_state_bytes',
          help: 'Bytes of the states that layers without slots carry for one answer, whatever its length.',
          registers,
        }).set(stateBytes);
      new Gauge({
        name: 'kv_prompts',
        help: 'Prompts that wait or are read, and answers that are generated.',
        labelNames: ['state'],
        registers,
        collect() {
          for (const [state, count] of Object.entries(scheduler.counts)) this.set({ state }, count);
        },
      });
      new Gauge({
        name: 'process_resident_memory_bytes',
        help: 'Resident memory of the process, the weights included.',
        registers,
        collect() {
          this.set(process.memoryUsage.rss());
        },
      });
    },
  };
}

/** Returns the counts of conversations; those in the store, and their bytes, where it knows them. */
export function conversationsOf({ caches: { conversations } }: Scheduler): Readonly<Record<string, number>> {
  const { stored, ...held } = conversations.held;
  return { ...held, ...(stored && { stored: stored.entries, storedBytes: stored.bytes }), ...conversations.counts };
}

/**
 * Returns memory figures in bytes: `limit`; `promised` to prompts, answers and request text, scratch included; `peak`,
 * the most promised and kept as conversations together; and what is held now, by part and in total.
 */
export function memoryOf({ caches: { pool, scratch, conversations, workingBytes }, sequenceBytes }: Scheduler) {
  const held = {
    conversations: conversations.bytes,
    sequences: sequenceBytes,
    requests: pool.requests,
    working: workingBytes,
    writing: conversations.held.writing,
  };
  return {
    limit: pool.limit + pool.requestLimit + scratch,
    promised: pool.taken + pool.requests + scratch,
    peak: pool.peak + scratch,
    scratch,
    ...held,
    held: Object.values(held).reduce((sum, bytes) => sum + bytes, 0),
  };
}
