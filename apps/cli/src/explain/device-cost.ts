import type { AnySignal } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { DispatchCost } from '@kv/gpu';
import { sum } from '@kv/engine-webgpu';
import type { ShapeCosts } from '@kv/engine-webgpu';
import { watchOf } from '@kv/engine';
import type { ModelConfig } from '@kv/models';
import { providedZeros } from './provided.ts';

/** What a policy costs on a GPU beside what the model costs. */
export interface DeviceCost {
  readonly prefill: DispatchCost;
  /** Signals that the event reads: attention of a window of queries, sums. */
  readonly score: DispatchCost;
  /** Scores to kept slots. */
  readonly select: DispatchCost;
  readonly compact: DispatchCost;
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
const NONE: DispatchCost = { dispatches: 0, bytes: 0, operations: 0 };

const seconds = ({ operations, bytes, dispatches }: DispatchCost): number =>
  Math.max(operations / ADAPTER.operations, bytes / ADAPTER.bytes) + dispatches * ADAPTER.dispatch;

/** Rows of the running sums that a layer keeps for these signals: 0 where none reads them. */
export function keptSums(
  needs: readonly AnySignal[],
  { queryHeads, kvHeads }: Pick<ModelConfig, 'queryHeads' | 'kvHeads'>,
): number {
  const { accumulated } = watchOf(needs);
  return accumulated ? { query: queryHeads, kv: kvHeads }[accumulated] : 0;
}

/** What a policy is asked about on a prompt. */
interface Question {
  readonly length: number;
  readonly budget: number;
  /** Whether anything is evicted. */
  readonly events: boolean;
  /** Of prefill. */
  readonly multiplyAdds: number;
}

/** What a device would record, and the operations of the event by name. */
export async function onDevice(
  policy: CompiledPolicy,
  config: ModelConfig,
  { length, budget, events, multiplyAdds }: Question,
  costs: ShapeCosts,
): Promise<{ readonly device: DeviceCost; readonly calls: readonly string[] }> {
  const { score, select, compact, calls } = events
    ? await costs.event(policy, { length, budget, provided: providedZeros })
    : { score: NONE, select: NONE, compact: NONE, calls: [] };
  const prefill = { ...(await costs.prefill(length)), operations: 2 * multiplyAdds },
    event = [score, select, compact].reduce(sum);
  const shares = {
    operations: event.operations / prefill.operations,
    bytes: event.bytes / prefill.bytes,
    time: seconds(event) / seconds(prefill),
  };
  return {
    device: { prefill, score, select, compact, shares, sums: await sumsShare(policy, config, length, costs) },
    calls,
  };
}

async function sumsShare(
  { needs }: CompiledPolicy,
  config: ModelConfig,
  length: number,
  costs: ShapeCosts,
): Promise<SumsShare | undefined> {
  const rows = keptSums(needs, config);
  if (rows === 0) return undefined;
  const { layers, kvHeads, headDim, maxPositions } = config,
    // the sums of four tokens are counted, which need room behind the prompt
    n = Math.max(1, Math.min(length, maxPositions - 4)),
    { waits, follows } = await costs.sums(needs, n),
    held = 4 * 2 * layers * kvHeads * n * headDim;
  return { rows, waits: waits.bytes / held, follows: follows.bytes / held };
}
