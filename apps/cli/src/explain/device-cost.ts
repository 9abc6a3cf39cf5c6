import { traceOps } from '@kv/core/engine';
import type { AnySignal } from '@kv/core';
import type { Compiled } from '@kv/core/engine';
import { planOps } from '@kv/gpu';
import type { Cost } from '@kv/gpu';
import type { ModelConfig } from '@kv/models';
import { compactCost, keptSums, moves, signalCost, together } from './around-event.ts';
import { recordEvent } from './record-event.ts';

/** What a policy costs on a GPU beside what the model costs. */
export interface OnDevice {
  readonly prefill: Cost;
  /** Signals that the event reads: attention of a window of queries, sums. */
  readonly score: Cost;
  /** Scores to kept slots. */
  readonly select: Cost;
  readonly compact: Cost;
  /** What score, select and compact take of prefill: of its operations, of its bytes, and of its time on `ADAPTER`. */
  readonly shares: { readonly operations: number; readonly bytes: number; readonly time: number };
  readonly sums: SumsShare | undefined;
}

/** Bytes that running sums cost a decoded token, as shares of the bytes of keys and values that it reads. */
interface SumsShare {
  /** Rows of the sums: one a query head, or one a KV head. */
  readonly rows: number;
  /** Of a token that waits for the attention of the next. */
  readonly waits: number;
  /** Of a token that an event follows at once, whose scores are stored between two kernels. */
  readonly follows: number;
}

/** An adapter that time is estimated for: operations a second in f32, bytes a second, seconds a dispatch. */
const ADAPTER = { operations: 1e13, bytes: 5e11, dispatch: 5e-6 } as const;
/** Tokens that go through a layer's programs together. */
const TOGETHER = 512;

const seconds = ({ operations, bytes, dispatches }: Cost): number =>
  Math.max(operations / ADAPTER.operations, bytes / ADAPTER.bytes) + dispatches * ADAPTER.dispatch;

/** What is known of a policy on a prompt. */
interface Given {
  readonly length: number;
  readonly budget: number;
  /** Slots that stay, `[layer][kvHead]`. */
  readonly budgets: readonly (readonly number[])[];
  /** Whether anything is evicted. */
  readonly events: boolean;
  /**
   * The event is read before a layer is compacted: it looks at the whole model or prompt, or lengths follow from
   * scores.
   */
  readonly waits: boolean;
  /** What the event reads, or the passes of a provider beside it. */
  readonly needs: readonly AnySignal[];
  /** Of prefill. */
  readonly multiplyAdds: number;
}

/**
 * The formula, and the calls that the event records, by operation. Weights are 16 bits, all else 32; what a dispatch
 * reads or writes is counted once.
 */
export function onDevice(
  policy: Compiled,
  config: ModelConfig,
  { length: n, budget, budgets, events, waits, needs, multiplyAdds }: Given,
): { readonly device: OnDevice; readonly calls: readonly string[] } {
  const { ops, cost } = planOps(),
    { ops: traced, calls } = traceOps(ops),
    left = events ? recordEvent(policy, config, n, budget, traced) : [],
    select = { ...cost };
  const score = events
    ? together(...budgets.flatMap(() => needs.map((signal) => signalCost(signal, needs, config, n))))
    : moves();
  const compact = together(
    ...left.map((each, l) => compactCost(each, needs, config, n, Math.max(...budgets[l]), !waits)),
  );
  const prefill = { ...prefillTraffic(config, n), operations: 2 * multiplyAdds },
    event = together(score, select, compact);
  const shares = {
    operations: event.operations / prefill.operations,
    bytes: event.bytes / prefill.bytes,
    time: seconds(event) / seconds(prefill),
  };
  return {
    device: { prefill, score, select, compact, shares, sums: sumsShare(keptSums(needs, config), config, n) },
    calls,
  };
}

/**
 * Every layer's prefill from hidden states to hidden states, of parts of 512 tokens: weights, rows between its
 * dispatches, keys and values that its attention reads.
 */
export function prefillTraffic(
  { layers: L, queryHeads: H, kvHeads: G, headDim: d, hidden: D, ffn: F }: ModelConfig,
  n: number,
): { readonly dispatches: number; readonly bytes: number } {
  const parts = Array.from(
      { length: Math.ceil(n / TOGETHER) },
      (_, part) => [Math.min(n, (part + 1) * TOGETHER) - part * TOGETHER, Math.min(n, (part + 1) * TOGETHER)] as const,
    ),
    weights = 2 * D * (d * (2 * H + 2 * G) + 3 * F);
  const part = ([m, held]: readonly [number, number]): Cost =>
    together(
      { dispatches: 0, bytes: weights, operations: 0 },
      // norm, product, heads of queries, keys, values; angles are d numbers
      moves(2 * m * D + D, m * (D + d * (H + 2 * G)), m * d * (2 * H + 1), m * d * (2 * G + 1), m * d * 2 * G),
      moves(m * (4 * G * d + G + 1) + 2 * G, m * (2 * H * d + 1) + G * held * (2 * d + 1) + G), // append, attention
      // products add their residual
      moves(m * (H * d + 2 * D), 2 * m * D + D, m * (D + 2 * F), 3 * m * F, m * (F + 2 * D)),
    );
  const layer = together(...parts.map(part));
  return { dispatches: L * layer.dispatches, bytes: L * layer.bytes };
}

/**
 * Sums are read and written; a query that waits lies beside its log-sum-exp, written once and read once, and scores
 * between attention and sums likewise.
 */
function sumsShare(
  rows: number,
  { queryHeads: H, kvHeads: G, headDim: d }: ModelConfig,
  n: number,
): SumsShare | undefined {
  const held = 2 * G * n * d;
  return rows === 0
    ? undefined
    : { rows, waits: (2 * rows * n + H * (3 * d + 2)) / held, follows: (2 * rows * n + 2 * H * n + H) / held };
}
