import { cpu } from '@kv/cpu';
import { compile, runEvent, readDecisions } from '@kv/core/engine';
import type { AnySignal, LayerContext, Ops, Piece, Tensor } from '@kv/core';
import type { EventLayer, EventDecision } from '@kv/core/engine';

export const ops: Ops = cpu.ops;
export const at = (more: Partial<LayerContext> = {}): LayerContext => ({
  layer: 0,
  layers: 1,
  queryHeads: 1,
  kvHeads: 1,
  headDim: 2,
  step: 0,
  promptLength: 4,
  length: 4,
  slots: 4,
  aligned: true,
  budget: 2,
  selectRows: 1,
  ...more,
});
export const matrix = (rows: readonly (readonly number[])[], lengths?: readonly number[]): Tensor =>
  ops.from(
    { data: rows.flat(), shape: [rows.length, rows[0].length] },
    'f32',
    lengths && ops.from({ data: Uint32Array.from(lengths), shape: [lengths.length] }, 'u32'),
  );
/** One layer that provides the signals by id, and counts reads. */
export function layer(
  signals: Readonly<Record<string, unknown>>,
  more: Partial<LayerContext> = {},
  budgets?: readonly number[],
): EventLayer & { readonly reads: string[] } {
  const place = at(more),
    reads: string[] = [];
  return {
    at: place,
    reads,
    budgets: budgets ?? new Array<number>(place.selectRows).fill(place.budget),
    read: (signal: AnySignal) => {
      reads.push(signal.id);
      return signals[signal.id];
    },
  };
}
/** Runs a whole event on the CPU and reads its decisions. */
export async function event(policy: Piece, ...layers: readonly EventLayer[]): Promise<EventDecision> {
  return readDecisions(cpu, layers, runEvent(compile(policy), layers, ops));
}
