import { cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps } from '@kv/core/engine';
import type { AnySignal, Piece, Tensor, DraftSelection } from '@kv/core';
import type { Layer } from '@kv/laws';

const { ops } = cpu;
/** The draft that a piece leaves on one layer of a random cache, ragged where the cache is. */
export function onLayer(piece: Piece, { at, lengths, attention, positions }: Layer): DraftSelection {
  const put = (data: Float32Array | Uint32Array, rows: number): Tensor =>
    ops.from(
      { data, shape: [rows, at.slots] },
      undefined,
      at.aligned
        ? undefined
        : ops.from({
            data: Uint32Array.from({ length: rows }, (_, r) => lengths[Math.floor((r * lengths.length) / rows)]),
            shape: [rows],
          }),
    );
  const read = (signal: AnySignal): unknown =>
    signal.id === 'positions'
      ? put(positions, at.kvHeads)
      : signal.args?.['rows'] === 'kv'
        ? ops.groupRows('sum', put(attention, at.queryHeads), at.kvHeads)
        : put(attention, at.queryHeads);
  const layer = { at, read, budgets: lengths.map(() => at.budget) };
  return runSteps(compile(piece).steps, [layer], ops, [emptyDraft(layer, ops)])[0];
}

/** The valid numbers of every row. */
export function rows(tensor: Tensor): number[][] {
  const {
    data,
    shape: [count = 0, slots = 0],
    lengths,
  } = readCpu(tensor);
  return Array.from({ length: count }, (_, r) =>
    Array.from(data.subarray(r * slots, r * slots + (lengths?.[r] ?? slots))),
  );
}
