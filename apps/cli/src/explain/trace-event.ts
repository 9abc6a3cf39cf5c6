import { isState, planBudgets, runEvent, traceOps } from '@kv/core';
import type { AnySignal, At, Compiled, DenseArray, EventLayer, Ops, Tensor } from '@kv/core';
import type { ModelConfig } from '@kv/models';

/** Calls of every operation that one event of the whole model records, by name; an event is run on made-up numbers. */
export function traceEvent(policy: Compiled, config: ModelConfig, slots: number, budget: number): ReadonlyMap<string, number> {
  const { layers, queryHeads, kvHeads, headDim } = config;
  const trace = traceOps();
  const lengths = Array.from({ length: layers }, () => Array.from({ length: kvHeads }, () => slots));
  const { budgets } = planBudgets(policy, budget, lengths);
  const made = lengths.map((_, layer): EventLayer => {
    const at: At = { layer, layers, queryHeads, kvHeads, headDim, step: 0, promptLength: slots, length: slots, slots, aligned: true, budget, selectRows: kvHeads };
    return { at, budgets: budgets[layer]!, read: (signal) => sample(signal, at, trace.ops) };
  });
  for (const group of policy.reach === 'model' ? [made] : made.map((layer) => [layer])) runEvent(policy, group, trace.ops);
  const counts = new Map<string, number>();
  for (const call of trace.calls) if (call !== 'from') counts.set(call, (counts.get(call) ?? 0) + 1);
  return counts;
}

/** Numbers of the shape that an engine would give. */
function sample(signal: AnySignal, { queryHeads: H, kvHeads: G, headDim: d, slots: n, length }: At, ops: Ops): unknown {
  const filled = (rows: readonly number[]): Tensor => ops.from({ data: new Float32Array(rows.reduce((a, b) => a * b, 1)).map((_, i) => ((i * 37) % 101) / 101 + 0.01), shape: rows });
  if (signal.id === 'tokens') return { ids: Array.from({ length }, (_, i) => i % 7), text: 'a'.repeat(length), offsets: Array.from({ length }, (_, i) => [i, i + 1]) };
  if (signal.id === 'positions') return ops.from({ data: Uint32Array.from({ length: G * n }, (_, i) => i % n), shape: [G, n] } as DenseArray, 'u32');
  if (signal.id === 'keys' || signal.id === 'values') return filled([G, n, d]);
  if (signal.id === 'queries') return filled([H, Number(signal.args?.w), d]);
  if (isState(signal)) return filled([{ query: H, kv: G, layer: 1, model: 1 }[signal.state.rows], { slot: n, position: length, unit: 1, sequence: signal.state.width ?? 1 }[signal.state.kind]]);
  return filled([H, n]);
}
