import type { Compiled } from '@kv/core';
import type { ModelConfig } from '@kv/models';
import { deviceOps } from './device-ops.ts';
import type { DeviceCost } from './device-ops.ts';
import { recordEvent } from './record-event.ts';

/** What a policy costs on a GPU beside what the model costs. */
export interface OnDevice {
  readonly prefill: DeviceCost;
  /** Attention of the window of queries that the policy reads, at the event. */
  readonly score: DeviceCost;
  /** Scores to kept slots. */
  readonly select: DeviceCost;
  readonly compact: DeviceCost;
  /** What score, select and compact take of prefill: of its operations, of its bytes, and of its time on `ADAPTER`. */
  readonly shares: { readonly operations: number; readonly bytes: number; readonly time: number };
  /** Bytes of running sums a decoded token, and of the scores between attention and them, as shares of the bytes of keys and values. */
  readonly sums: { readonly rows: number; readonly bytes: number; readonly scores: number } | undefined;
}

/** An adapter that time is estimated for: operations a second in f32, bytes a second, seconds a dispatch. */
const ADAPTER = { operations: 1e13, bytes: 5e11, dispatch: 5e-6 } as const;
/** Tokens that go through a layer's programs together, and dispatches of those of one layer. */
const TOGETHER = 512, LAYER = 14;

const seconds = ({ operations, bytes, dispatches }: DeviceCost): number => Math.max(operations / ADAPTER.operations, bytes / ADAPTER.bytes) + dispatches * ADAPTER.dispatch;
const together = (...costs: readonly DeviceCost[]): DeviceCost => costs.reduce((a, b) => ({ dispatches: a.dispatches + b.dispatches, bytes: a.bytes + b.bytes, operations: a.operations + b.operations }), { dispatches: 0, bytes: 0, operations: 0 });

/** What is known of a policy on a prompt. */
interface Given {
  readonly length: number;
  readonly budget: number;
  /** Slots that stay, over all layers and KV heads. */
  readonly kept: number;
  /** Whether anything is evicted. */
  readonly events: boolean;
  /** Windows of queries that are scored at the event. */
  readonly windows: readonly number[];
  /** Weights are summed from prefill on. */
  readonly sums: boolean;
  /** Of prefill. */
  readonly multiplyAdds: number;
}

/** The formula, and the calls that the event records, by operation. Weights are 16 bits, all else 32; every tensor is counted once a dispatch that binds it. */
export function onDevice(policy: Compiled, config: ModelConfig, { length: n, budget, kept, events, windows, sums, multiplyAdds }: Given): { readonly device: OnDevice; readonly calls: ReadonlyMap<string, number> } {
  const { layers: L, queryHeads: H, kvHeads: G, headDim: d } = config, { ops, cost, calls } = deviceOps();
  if (events) recordEvent(policy, config, n, budget, ops);
  // attention for the log-sum-exp, then column sums: keys twice, values once
  const score = together(...windows.map((w) => ({ dispatches: 2 * L, bytes: 4 * L * (3 * G * n * d + 4 * H * w * d + H * n), operations: 6 * L * H * d * n * w })));
  const prefill = { ...prefillTraffic(config, n), operations: 2 * multiplyAdds }, compact = events ? { dispatches: 3 * L, bytes: 2 * kept * (8 * d + 4), operations: 0 } : together(), event = together(score, cost, compact);
  const shares = { operations: event.operations / prefill.operations, bytes: event.bytes / prefill.bytes, time: seconds(event) / seconds(prefill) };
  // of a slot each sum and each score is read and written, beside 2 d numbers of each KV head
  return { device: { prefill, score, select: { ...cost }, compact, shares, sums: sums ? { rows: H, bytes: H / (G * d), scores: H / (G * d) } : undefined }, calls };
}

/** Weights of every part, rows between its dispatches, and the keys and values of its attention. */
function prefillTraffic({ layers: L, queryHeads: H, kvHeads: G, headDim: d, hidden, ffn }: ModelConfig, n: number): { readonly dispatches: number; readonly bytes: number } {
  const parts = Math.ceil(n / TOGETHER), weights = 2 * hidden * (d * (2 * H + 2 * G) + 3 * ffn), rows = 4 * n * (10 * hidden + 3 * d * (2 * H + 2 * G) + 6 * ffn);
  const held = Array.from({ length: parts }, (_, part) => 8 * G * d * Math.min(n, (part + 1) * TOGETHER)).reduce((a, b) => a + b, 0);
  return { dispatches: parts * L * LAYER, bytes: L * (parts * weights + rows + held) };
}
