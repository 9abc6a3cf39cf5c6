import type { Heads } from '@kv/checkpoints';
import type { AnySignal } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { DispatchCost } from '@kv/gpu';
import { sum } from '@kv/engine-webgpu';
import type { ShapeCosts } from '@kv/engine-webgpu';
import { joinedHeads, observationPlan } from '@kv/engine';
import type { ModelConfig } from '@kv/models';
import { providedZeros } from './zero-inputs.ts';

/** Costs of a policy on a GPU whose caches are stored as f32, in addition to the model's. */
export interface DeviceCost {
  readonly prefill: DispatchCost;
  /** Computing the signals that the event reads: attention of a window of queries, sums. */
  readonly score: DispatchCost;
  /** From scores to kept slots. */
  readonly select: DispatchCost;
  readonly compact: DispatchCost;
  /** Costs of score, select and compact relative to prefill: its operations, its bytes, and its time on `ADAPTER`. */
  readonly shares: { readonly operations: number; readonly bytes: number; readonly time: number };
  readonly sums: SumsShare | undefined;
}

/** Bytes that running sums cost a decoded token, relative to the bytes of keys and values that it reads. */
interface SumsShare {
  /** Rows of the sums: one per query head, or one per KV head. */
  readonly rows: number;
  /** For a token whose sums are updated with the next token's attention. */
  readonly waits: number;
  /** For a token that is followed by an event, whose scores are stored between two kernels. */
  readonly follows: number;
}

/** The adapter for which time is estimated: f32 operations per second, bytes per second, seconds per dispatch. */
const ADAPTER = { operations: 1e13, bytes: 5e11, dispatch: 5e-6 } as const;
const NONE: DispatchCost = { dispatches: 0, bytes: 0, operations: 0 };

const seconds = ({ operations, bytes, dispatches }: DispatchCost): number =>
  Math.max(operations / ADAPTER.operations, bytes / ADAPTER.bytes) + dispatches * ADAPTER.dispatch;

/** Returns the rows of running sums that a layer with these heads keeps for these signals, 0 if none reads them. */
export function keptSums(
  needs: readonly AnySignal[],
  { queryHeads, kvHeads }: Pick<Heads, 'queryHeads' | 'kvHeads'>,
): number {
  const { accumulated } = observationPlan(needs);
  return accumulated ? { query: queryHeads, kv: kvHeads }[accumulated] : 0;
}

/** Input of a prediction. */
interface Question {
  readonly length: number;
  readonly budget: number;
  /** Whether anything is evicted. */
  readonly events: boolean;
  /** Of prefill. */
  readonly multiplyAdds: number;
}

/** Records what a device would run, and the operations of the event by name. */
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
  const heads = joinedHeads(config),
    rows = Math.max(...heads.map((of) => keptSums(needs, of)));
  if (rows === 0) return undefined;
  const { maxPositions } = config,
    // the sums of four tokens are counted, which need room after the prompt
    n = Math.max(1, Math.min(length, maxPositions - 4)),
    { waits, follows } = await costs.sums(needs, n),
    held = 4 * 2 * n * heads.reduce((sum, { kvHeads, headDim }) => sum + kvHeads * headDim, 0);
  return { rows, waits: waits.bytes / held, follows: follows.bytes / held };
}
