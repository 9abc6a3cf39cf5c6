import { id, LEVELS } from '@kv/core';
import type { AnySignal, LayerContext, LevelShares, Ops } from '@kv/core';
import { range } from '@kv/core/shared';
import { compile, isInputSignal, namedCalls, planBudgets } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import type { DispatchCost, Recordable } from '@kv/gpu';
import { activePolicyOf, createDecoder, Memory, waits } from '@kv/engine';
import type { CacheForm } from '@kv/engine';
import { shapeWeights } from '@kv/checkpoints';
import type { ModelConfig, StreamDecoder, Tokenizer } from '@kv/checkpoints';
import type { FeedOptions, MemoryModel } from '@kv/engine';
import { prepareProgram } from './engine.ts';
import { isBounded, compact, decide, recordOnDevice, type EventContext, type EventSubject } from './sequence/event.ts';
import { DeviceCaches } from './sequence/device-caches.ts';
import type { DecidedSlots } from './sequence/device-scope.ts';
import { isDecoded } from './sequence/signals.ts';
import { reserveMatrix } from './weights/device-matrix.ts';

/** A device or a plan of one, with the operations recorded so far, which only plans count. */
export type CostRecorder = Recordable & {
  readonly counters: Pick<DispatchCost, 'dispatches' | 'bytes'> & Partial<DispatchCost>;
};

/** Costs of a model of which only the shape is known, on a device or a plan of one. */
export interface ShapeCosts {
  /** Returns the cost of a prompt of n tokens through all layers, without the head. */
  prefill(n: number): Promise<DispatchCost>;
  /** Returns the cost of one event of a policy after a prompt. */
  event(policy: CompiledPolicy, options: EventCostOptions): Promise<EventCosts>;
  /** Returns the cost of a token after n tokens through all layers, without the head, as a policy's views hide slots. */
  token(policy: CompiledPolicy, n: number): Promise<DispatchCost>;
  /** Returns the cost that running sums add to a token after n tokens. */
  sums(needs: readonly AnySignal[], n: number): Promise<SumCosts>;
  destroy(): void;
}

/** The event whose cost is wanted. */
export interface EventCostOptions {
  /** Tokens of the prompt. */
  readonly length: number;
  /** Slots per KV head to keep. */
  readonly budget: number;
  /** Returns what a provider would compute for a signal. */
  provided(signal: AnySignal, at: LayerContext, ops: Ops): unknown;
}

/** Cost of one event on a device, by phase. */
export interface EventCosts {
  /** Cost of the signals that the event reads. */
  readonly score: DispatchCost;
  /** Cost from scores to kept slots. */
  readonly select: DispatchCost;
  /** Cost of moving the kept slots together. */
  readonly compact: DispatchCost;
  /** Operations that the policy's pieces record, by name. */
  readonly calls: readonly string[];
}

/** Cost that running sums of attention add to a token. */
export interface SumCosts {
  /** Cost of a token whose probabilities are added by the next token's attention. */
  readonly waits: DispatchCost;
  /** Cost of a token that an event follows immediately, whose scores are stored between two kernels. */
  readonly follows: DispatchCost;
}

/** A sequence whose numbers mean nothing. */
interface ShapeSequence {
  readonly caches: DeviceCaches;
  readonly memory: Memory;
}

/**
 * Records what sequences do with a model of this shape, with the code that runs them on a device. Weights are 16-bit
 * and uninitialised: results are meaningless, only costs count.
 * @param form how caches are stored
 */
export async function shapeCosts(gpu: CostRecorder, config: ModelConfig, form: CacheForm = 'f32'): Promise<ShapeCosts> {
  const decoder = await createDecoder(config, shapeWeights(config), {
    name: 'shape',
    prepare: async (program) => prepareProgram(gpu, program, reserveMatrix),
  });
  const sequence = (needs: readonly AnySignal[] = []): ShapeSequence => {
    const model: MemoryModel = {
      config,
      tokenizer: letters(config.vocab),
      sidecar: async () => undefined,
      embeddings: { width: 1, encode: () => [0], rows: (ids) => Float32Array.from(ids) },
    };
    const caches = new DeviceCaches(gpu, decoder, model, { form });
    // numbers of inputs come from a file too, which is not there
    caches.observe(needs.filter((signal) => !signal.provide && !isInputSignal(signal)));
    return { caches, memory: new Memory(caches) };
  };
  const nothing = activePolicyOf(compile(id), undefined);
  const prefills = new Map<number, Promise<DispatchCost>>();
  const now = (): DispatchCost => ({ operations: 0, ...gpu.counters });
  const since = (before: DispatchCost): DispatchCost => less(now(), before);
  const feed = async (
    { memory }: ShapeSequence,
    n: number,
    options: Partial<FeedOptions> = {},
  ): Promise<DispatchCost> => {
    const before = now(),
      ids = new Array<number>(n).fill(0);
    const { output } = await memory.feed(ids, { phase: 'prefill', active: nothing, rows: 0, ...options });
    output.release();
    return since(before);
  };
  const using = async <T>(made: ShapeSequence, run: (made: ShapeSequence) => Promise<T>): Promise<T> => {
    try {
      return await run(made);
    } finally {
      made.memory.destroy();
    }
  };
  /** Returns the costs of four tokens after n, the last two as if an event followed each. */
  const steps = (n: number, needs?: readonly AnySignal[]): Promise<DispatchCost[]> =>
    using(sequence(needs), async (made) => {
      const costs: DispatchCost[] = [];
      await feed(made, n);
      for (const eventFollows of [false, false, true, true])
        costs.push(await feed(made, 1, { phase: 'decode', eventFollows }));
      return costs;
    });
  return {
    prefill(n) {
      const cost = prefills.get(n) ?? using(sequence(), (made) => feed(made, n));
      prefills.set(n, cost);
      return cost;
    },
    token: (policy, n) =>
      using(sequence(policy.hooks('view').flatMap(({ needs }) => needs)), async (made) => {
        const active = activePolicyOf(policy, undefined);
        made.caches.context.progress.setPrompt(n);
        await feed(made, n, { active });
        await feed(made, 1, { phase: 'decode', active }); // the first may set state up
        return feed(made, 1, { phase: 'decode', active });
      }),
    async sums(needs, n) {
      const [[, plainWaits, , plainFollows], [, waiting, , following]] = [await steps(n), await steps(n, needs)];
      return { waits: less(waiting, plainWaits), follows: less(following, plainFollows) };
    },
    event: (policy, { length, budget, provided }) =>
      using(sequence(policy.needs), async (made) => {
        const { caches } = made,
          { slots, context, layers: cached } = caches;
        context.progress.setPrompt(length);
        await feed(made, length);
        const plan = planBudgets(policy, budget, slots.lengths()),
          active = activePolicyOf(policy, { slots: budget }),
          layers = Array.from(cached.keys()),
          together = waits(policy),
          total = { score: NONE, select: NONE, compact: NONE },
          calls: string[] = [];
        const spent = <T>(on: keyof typeof total, run: () => T): T => {
          const before = now(),
            result = run();
          total[on] = sum(total[on], since(before));
          return result;
        };
        for (const group of together ? [layers] : layers.map((layer) => [layer]))
          await gpu.scope(async (own) => {
            const ops = namedCalls(own.ops, (name) => calls.push(name)),
              times = { score: 0, settle: 0, compact: 0 },
              stage: EventContext = {
                scope: { ...own, ops },
                shared: caches.shared,
                decoded: caches.decoded,
                times,
                change: (run) => run(),
              };
            const subjects = group.map((layer): EventSubject => {
              const at = slots.layerContext(layer, active),
                read = caches.reader(layer, own);
              return {
                at,
                layer: cached[layer],
                read: (signal) =>
                  signal.provide || isInputSignal(signal) ? provided(signal, at, own.ops) : read(signal),
              };
            });
            // a step decodes what it reads
            const read = policy.needs.filter((signal) => !isDecoded(signal, { form }));
            spent('score', () => subjects.forEach((subject) => read.forEach(subject.read)));
            const decision = spent('select', () => decide(active, subjects, plan, stage)),
              counts = group.map((layer) => plan.budgets[layer]);
            spent('compact', () =>
              !together && isBounded(policy, plan)
                ? recordOnDevice(policy, subjects[0], decision, stage, own.commands)
                : compact(policy, subjects, decision, stage, counts, assumedSlots(policy, counts)),
            );
          });
        return { ...total, calls };
      }),
    destroy: () => decoder.destroy(),
  };
}

/**
 * Returns the slots that an event under a policy with levels is taken to keep: the first ones of each head, at levels of
 * the shares that are known before it.
 */
function assumedSlots(
  { levels }: CompiledPolicy,
  counts: readonly (readonly number[])[],
): readonly DecidedSlots[] | undefined {
  if (!levels) return undefined;
  const at = (shares: LevelShares, part: number): number => {
    let end = 0;
    return Math.max(
      0,
      LEVELS.findIndex((level) => part < (end += shares[level] ?? 0)),
    );
  };
  return counts.map((heads) => ({
    slots: heads.map((n) => range(0, n)),
    levels: heads.map((n) =>
      Uint8Array.from({ length: n }, (_, i) => Math.max(...levels.map((shares) => at(shares, i / n)))),
    ),
  }));
}

const NONE: DispatchCost = { dispatches: 0, bytes: 0, operations: 0 };

const plus = (a: DispatchCost, b: DispatchCost, sign: 1 | -1): DispatchCost => ({
  dispatches: a.dispatches + sign * b.dispatches,
  bytes: a.bytes + sign * b.bytes,
  operations: a.operations + sign * b.operations,
});
/** Returns the sum of two costs. */
export const sum = (a: DispatchCost, b: DispatchCost): DispatchCost => plus(a, b, 1);
const less = (a: DispatchCost, b: DispatchCost): DispatchCost => plus(a, b, -1);

const oneLetter = (): StreamDecoder => ({ push: () => 'a', pending: 0, end: () => '', fork: oneLetter });
/** Returns a tokenizer whose ids are letters, so that there is text: each token is one character. */
const letters = (size: number): Tokenizer => ({
  size,
  specials: new Map(),
  encode: (text) => ({ ids: Array.from(text, () => 0), offsets: Array.from(text, (_, i) => [i, i + 1]) }),
  *encodeParts(text) {
    yield Array.from(text, () => 0);
  },
  decode: (ids) => Array.from(ids, () => 'a').join(''),
  bytesOf: () => Uint8Array.of(97),
  streamDecoder: oneLetter,
});
