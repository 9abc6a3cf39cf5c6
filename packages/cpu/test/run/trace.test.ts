import { expect, test } from 'vitest';
import { layerMean, meanByPosition } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { traceOps } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import { at } from './engine.ts';

const reading = (x: Tensor): unknown => (x as Tensor & { data: Float32Array }).data[0];
test('handles throw on a host read and name what was read', () => {
  const { ops } = traceOps(cpu),
    x = ops.from({ data: [1, 2], shape: [1, 2] });
  expect(() => reading(x)).toThrow("trace: 'data' of a tensor was read on the host, expected device operations only");
  expect(() => reading(ops.add(x, 1))).toThrow("'data'");
  expect(() => {
    (x as { offset?: number }).offset = 1;
  }).toThrow("'offset' of a tensor was written on the host");
});
test('lengths are handles too', () => {
  const { ops } = traceOps(cpu),
    x = ops.from({ data: [1, 2], shape: [1, 2] }, 'f32', ops.from({ data: Uint32Array.of(1), shape: [1] }, 'u32'));
  expect(() => reading(x.lengths!)).toThrow("'data'");
  expect(() => reading(ops.add(x, x).lengths!)).toThrow("'data'");
});
test('shape and element type are public', () => {
  const { ops } = traceOps(cpu),
    x = ops.from({ data: Uint32Array.of(1, 2), shape: [1, 2] });
  expect([x.shape, x.dtype, x.lengths]).toEqual([[1, 2], 'u32', undefined]);
});
test('calls are recorded, kernels by their id, and reveal opens what came out', () => {
  const { ops, calls, reveal } = traceOps(cpu),
    x = ops.from({ data: [1, 3], shape: [2, 1] }),
    p = ops.from({ data: Uint32Array.of(0, 0), shape: [2, 1] });
  const out = layerMean({ ops, at: at({ aligned: false, kvHeads: 2 }), positions: p }, x);
  expect(calls).toEqual(['from', 'from', `kernel:${meanByPosition.id}`]);
  expect([...readCpu(reveal(out)).data]).toEqual([2, 2]);
});
