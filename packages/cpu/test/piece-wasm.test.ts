import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { kernel } from '@kv/core';
import { apply, cpu, readCpu } from '@kv/cpu';
import { cpuWith, plainProducts, scratchBytes } from '@kv/cpu/engine';
import { kernels, root, sourceHash } from '../scripts/sources.mjs';
import { bytes, halfNorm, halved, plain, wasm } from './acme-fast/index.ts';

const x = Float32Array.from({ length: 40 }, (_, i) => Math.sin(i) * 10 ** ((i % 7) - 3));

test("a third party's kernel runs by its own WebAssembly, with the numbers of its reference", () => {
  const want = new Float32Array(x.length);
  halved.ref({ x: { data: x, shape: [2, 20] } }, {}, want, Uint32Array.of(20, 20), plainProducts);
  expect(plain.calls).toBe(1);
  for (const [times, { ops }] of [cpu, cpuWith((products) => products)].entries()) {
    const got = readCpu(ops.kernel(halved, { x: ops.from({ data: x, shape: [2, 20] }) })).data;
    expect(got).toEqual(want);
    expect([wasm.calls(), plain.calls]).toEqual([times + 1, 1]);
  }
});

test('its piece is applied as any other', () => {
  const before = wasm.calls(),
    { scores } = apply(halfNorm(), { keys: { data: [3, 4, 6, 8, 0, 1], shape: [1, 3, 2] } });
  expect([...scores.data]).toEqual([2.5, 5, 0.5]);
  expect([wasm.calls(), plain.calls]).toEqual([before + 1, 1]);
});

test('the memory of its module grows to what is asked for, and counts as scratch', () => {
  const before = scratchBytes(),
    n = 100_000,
    long = Float32Array.from({ length: n }, (_, i) => i),
    got = readCpu(cpu.ops.kernel(halved, { x: cpu.ops.from({ data: long, shape: [1, n] }) })).data;
  expect(got).toEqual(long.map((v) => v / 2));
  expect(scratchBytes() - before).toBeGreaterThanOrEqual(3 * n);
});

const broken = (bytes: string): (() => unknown) => {
  const own = kernel({ ...halved, id: 'broken', wasm: { bytes, loop: () => () => {} } });
  return () => cpu.ops.kernel(own, { x: cpu.ops.from({ data: x, shape: [2, 20] }) });
};
test('what is no such module is refused in a sentence that names the kernel', () => {
  expect(broken('AGFzbQ==')).toThrow(/^broken: expected the base64 of a WebAssembly module/);
  expect(broken('not base64')).toThrow(/^broken: expected the base64 of a WebAssembly module/);
  expect(broken('AGFzbQEAAAA=')).toThrow(/^broken: expected a module that exports 'memory'/);
  expect(bytes.startsWith('AGFzbQEAAAA')).toBe(true);
});

test.each(kernels())('$target was built from its source', ({ source, target }) => {
  expect(readFileSync(join(root, target), 'utf8')).toContain(`kernelSource = '${sourceHash(source)}'`);
});
