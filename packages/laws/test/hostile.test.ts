import { advanceOn, retainOn } from '@kv/core';
import { cpu } from '@kv/cpu';
import { traceOps } from '@kv/core/engine';
import type { Backend, Cache, HostArray, Policy } from '@kv/core';
import { describe, expect, test } from 'vitest';
import { hostileCases, judgeHostile } from '../src/index.ts';
import type { HostileCase } from '../src/index.ts';

const array = (...shape: readonly number[]): HostArray => ({
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i + 1)),
  shape,
});
const layer = () => ({ keys: array(2, 8, 4), values: array(2, 8, 4) });
const fresh = (): Cache => ({ queryHeads: 4, layers: [layer(), layer()] });
let cache = fresh();
const numbers = (): unknown => JSON.stringify(cache, (_, x: unknown) => (x instanceof Float32Array ? [...x] : x));

/** Returns the error of `retainOn`, or of `advanceOn` after it. */
async function said({ policy: make, when, late }: HostileCase, backend: Backend): Promise<unknown> {
  try {
    const policy: Policy = make();
    for (const _ of late ? [1, 2] : [1])
      if (when === 'step') await advanceOn(backend, policy, cache);
      else {
        const { slots, budgets } = await retainOn(backend, policy, cache, { budget: 3 });
        for (const [l, heads] of slots.entries())
          for (const [g, row] of heads.entries()) {
            expect(row.length).toBeLessThanOrEqual(budgets[l][g]);
            expect([...row]).toEqual([...new Set(row)].sort((a, b) => a - b));
          }
      }
    return undefined;
  } catch (error) {
    return error ?? new Error('threw nothing');
  }
}

describe.each([
  ['the host', cpu],
  ['opaque handles', traceOps(cpu).backend],
] as const)('retainOn() with %s', (_, backend) => {
  const foreign = { ...traceOps(cpu).ops.from({ data: [1], shape: [1, 1] }), memory: {} },
    cases = hostileCases({
      foreign: { shape: foreign.shape, dtype: foreign.dtype },
      opaque: backend !== cpu,
    }).filter(({ when }) => ['policy', 'event', 'step'].includes(when)),
    before = numbers();
  test.each(cases.map((one) => [one.name, one] as const))('%s', async (_name, one) => {
    judgeHostile(one, await said(one, backend));
    if (one.name.startsWith('writes in place')) cache = fresh(); // it wrote to the caller's arrays; in a trace a kernel can, too
    expect(numbers()).toBe(before);
  });
});
