import { isState, sizeOf } from '@kv/core/engine';
import type { AnySignal, State, Tensor, Draft } from '@kv/core';
import { asksSeen, statisticOf, sumRows, watchOf, windowOf } from '@kv/models/engine';
import type { Cost } from '@kv/gpu';
import type { ModelConfig } from '@kv/models';

/** Dispatches by the numbers of 32 bits that each reads and writes. */
export const moves = (...numbers: readonly number[]): Cost => ({
  dispatches: numbers.length,
  bytes: 4 * numbers.reduce((a, b) => a + b, 0),
  operations: 0,
});
export const together = (...costs: readonly Cost[]): Cost =>
  costs.reduce(
    (a, b) => ({
      dispatches: a.dispatches + b.dispatches,
      bytes: a.bytes + b.bytes,
      operations: a.operations + b.operations,
    }),
    moves(),
  );

/** Rows of the running sums that a layer keeps for these signals: 0 where none reads them. */
export function keptSums(
  needs: readonly AnySignal[],
  { queryHeads, kvHeads }: Pick<ModelConfig, 'queryHeads' | 'kvHeads'>,
): number {
  const { accumulated } = watchOf(needs);
  return accumulated ? { query: queryHeads, kv: kvHeads }[accumulated] : 0;
}

/** What `@kv/gpu-models` records for a signal, one of `needs`, of one layer that has seen n tokens and lost none. */
export function signalCost(signal: AnySignal, needs: readonly AnySignal[], config: ModelConfig, n: number): Cost {
  const { queryHeads: H, kvHeads: G, headDim: d, hidden } = config;
  const w = Math.min(n, windowOf(signal)),
    { id } = signal;
  if (id === 'queries') return moves(2 * H * w * d);
  if (w > 0) {
    // copies of the last queries and of their log-sum-exp, with the slots that they see where a statistic asks, then
    // columns: keys once
    const of = statisticOf(signal),
      counted = asksSeen(of),
      beside = counted ? 2 * H * w : H * w;
    return {
      ...moves(
        2 * H * w * d,
        2 * H * w,
        ...(counted ? [G * n + G + w + 3 * H * w] : []),
        H * w * d + G * n * (d + 1) + G + w + beside + H * n,
      ),
      operations: H * n * w * (2 * d + (of && of !== 'max' ? 6 : 4)),
    };
  }
  if (id === 'attention.block') return moves(2 * H * n);
  if (id === 'attention.accumulated') {
    const rows = keptSums(needs, config),
      own = { query: H, kv: G }[sumRows(signal)];
    // what is kept by query head is summed for those who read by KV head
    return moves(2 * rows * n, ...(own < rows ? [(own + rows) * n] : []));
  }
  if (id === 'values.output')
    return { ...moves(G * n * d + G + (H * d * hidden) / 2 + H * n), operations: 2 * n * H * d * hidden };
  return isState(signal) ? moves(2 * sizeOf(stateShape(signal, config, n))) : moves();
}

/** What a state holds of one layer with n slots, all of them those of its tokens, or of the model: rows and columns. */
export const stateShape = (
  { state: { kind, rows, width = 1 } }: State,
  { queryHeads, kvHeads }: Pick<ModelConfig, 'queryHeads' | 'kvHeads'>,
  n: number,
): readonly [rows: number, columns: number] => [
  { query: queryHeads, kv: kvHeads, layer: 1, model: 1 }[rows],
  { slot: n, position: n, unit: 1, sequence: width }[kind],
];

/** Whether a signal takes another pass over the model. */
export const secondPass = ({ cost, provide }: AnySignal): boolean => cost === 'pass' && provide !== undefined;

/** What an event of one layer left to do. */
export interface Left {
  readonly draft: Draft;
  /** New keys or values. */
  readonly replaced: readonly Tensor[];
}

/**
 * What follows an event of one layer of n slots of which `most` stay: state and new keys written, keys, values,
 * positions and what lies beside them compacted.
 * With `waits` the event is compacted before it is read, and what will be read is copied.
 */
export function compactCost(
  { draft: { kept, budgets, checks, state }, replaced }: Left,
  needs: readonly AnySignal[],
  config: ModelConfig,
  n: number,
  most: number,
  waits: boolean,
): Cost {
  const { queryHeads: H, kvHeads: G, headDim: d } = config,
    sums = keptSums(needs, config);
  const written = moves(
    ...replaced.map(({ shape }) => 2 * sizeOf(shape)),
    ...Array.from(state.values(), ({ shape }) => 2 * sizeOf(shape)),
  );
  if (!kept) return written;
  const own = kept.shape[0] ?? 1,
    rowsOf = (rows: number): number => Math.min(rows, own);
  const compact = (rows: number, channels: number): number => rowsOf(rows) * (most + 1) + 2 * rows * most * channels,
    beside = (rows: number): Cost => moves(compact(rows, 1), rowsOf(rows) + rows * n);
  const slots = needs.flatMap((s) =>
    isState(s) && s.state.kind === 'slot' && s.state.rows !== 'model'
      ? [{ query: H, kv: G, layer: 1 }[s.state.rows]]
      : s.id === 'attention.block'
        ? [H]
        : [],
  );
  const copies = waits
    ? [budgets, ...checks.map(({ bad }) => bad), kept].flatMap(({ shape, lengths }) => [
        2 * sizeOf(shape),
        ...(lengths ? [2 * sizeOf(lengths.shape)] : []),
      ])
    : [];
  return together(
    written,
    moves(compact(G, d), compact(G, d), compact(G, 1), 2 * G, ...copies),
    ...[...slots, ...(sums > 0 ? [sums] : [])].map(beside),
  );
}
