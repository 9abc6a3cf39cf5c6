import { cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, isState, runSteps } from '@kv/core/engine';
import type { AnySignal, Ops, Policy, Tensor } from '@kv/core';
import type { Layer } from '@kv/laws';

/**
 * Slots that a policy keeps in one layer of a random cache, `[KV head][slot]`; `reveal` opens the handles of a tracing
 * backend.
 */
export function keptOn(
  policy: Policy,
  { at, lengths, keys, values, attention, positions, tokens }: Layer,
  ops: Ops = cpu.ops,
  reveal = (t: Tensor): Tensor => t,
): number[][] {
  const put = (data: Float32Array | Uint32Array, rows: number, ...rest: number[]): Tensor =>
    ops.from(
      { data, shape: [rows, at.slots, ...rest] },
      undefined,
      at.aligned
        ? undefined
        : ops.from({
            data: Uint32Array.from({ length: rows }, (_, r) => lengths[Math.floor((r * lengths.length) / rows)]),
            shape: [rows],
          }),
    );
  const read = (signal: AnySignal): unknown => {
    if (signal.id === 'tokens') return tokens;
    if (signal.id === 'crystalcache.co-attention')
      return {
        saliency: Float32Array.from({ length: at.length }, (_, i) => 10 + 9 * Math.sin(i)),
        from: Uint32Array.from({ length: at.length - 1 }, (_, i) => i),
        to: Uint32Array.from({ length: at.length - 1 }, (_, i) => i + 1),
        weight: new Float32Array(at.length - 1).fill(0.5),
      };
    if (signal.id === 'positions') return put(positions, at.kvHeads);
    if (signal.id === 'keys' || signal.id === 'values')
      return put(signal.id === 'keys' ? keys : values, at.kvHeads, at.headDim);
    if (signal.id === 'rope')
      return { rotary: 0, angles: () => ({ cos: new Float32Array(0), sin: new Float32Array(0) }) };
    if (signal.id === 'preRope')
      return {
        mean: Float32Array.from({ length: at.queryHeads * at.headDim }, (_, i) => Math.sin(i)),
        size: new Float32Array(0),
        half: 0,
        queryHeads: at.queryHeads,
        headDim: at.headDim,
      };
    if (signal.id === 'queryStatistics')
      return {
        queryHeads: at.queryHeads,
        headDim: at.headDim,
        mean: Float32Array.from({ length: at.queryHeads * at.headDim }, (_, i) => Math.sin(i)),
        covariance: new Float32Array(at.queryHeads * at.headDim ** 2),
      };
    if (signal.id === 'qFilters')
      return {
        kvHeads: at.kvHeads,
        headDim: at.headDim,
        filters: Float32Array.from({ length: at.kvHeads * at.headDim }, (_, i) => Math.sin(i)),
      };
    if (signal.id === 'queries') {
      const w = Number(signal.args?.['w']);
      return ops.from({
        data: Float32Array.from({ length: at.queryHeads * w * at.headDim }, (_, i) => Math.sin(i)),
        shape: [at.queryHeads, w, at.headDim],
      });
    }
    if (!isState(signal)) return put(attention, at.queryHeads);
    const { kind, rows, width = 1, init = 0 } = signal.state,
      count = rows === 'query' ? at.queryHeads : rows === 'kv' ? at.kvHeads : 1,
      columns = kind === 'slot' ? at.slots : kind === 'position' ? at.length : width;
    return ops.from({ data: new Float32Array(count * columns).fill(init), shape: [count, columns] });
  };
  const layer = { at, read, budgets: lengths.map((n) => Math.min(n, at.budget)) };
  const { kept } = runSteps(compile(policy).steps, [layer], ops, [emptyDraft(layer, ops)])[0];
  const {
    data,
    shape: [rows = 1, slots = 0],
    lengths: counts,
  } = readCpu(reveal(kept!));
  return lengths.map((_, g) => {
    const r = Math.floor((g * rows) / lengths.length);
    return Array.from(data.subarray(r * slots, r * slots + (counts?.[r] ?? slots)));
  });
}
