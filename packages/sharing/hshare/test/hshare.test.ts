import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compile, compose, cpu, isState, mandatory, readCpu, scorer, view } from '@kv/core';
import type { Signal, Tensor, ViewHook } from '@kv/core';
import { each, kernelLaws, sharingLaws } from '@kv/laws';
import { topK } from '@kv/selectors-top-k';
import { leaders, overlaps, rowsOfLeaders, sharedSets } from '../src/index.ts';
import { hshareOracle } from './hshare.oracle.ts';

describe('sharedSets', () => { each(sharingLaws((threshold) => (threshold > 1 ? sharedSets({ query: 1, heads: 0 }) : sharedSets({ query: 2, heads: 0.7, measure: 1, sinks: 1, local: 1 })), { runs: 30 }), test); });
const square = ({ rows, seed }: { readonly rows: number; readonly seed: number }) => ({ data: Float32Array.from({ length: rows * rows }, (_, i) => (i * 7 + seed) % 5), shape: [rows, rows] });
describe('overlaps', () => { each(kernelLaws(overlaps, { make: ({ rows, slots, seed }) => ({ inputs: { sets: { data: Float32Array.from({ length: rows * slots }, (_, i) => (i * 5 + seed) % 2), shape: [rows, slots] }, before: square({ rows, seed }) } }) }), test); });
describe('leaders', () => { each(kernelLaws(leaders, { make: (size) => ({ inputs: { overlap: square(size) }, params: { share: 2 } }) }), test); });
describe('rows', () => { each(kernelLaws(rowsOfLeaders, { make: ({ rows, slots, seed }) => ({ inputs: { sets: { data: Float32Array.from({ length: rows * slots }, (_, i) => (i + seed) % 3), shape: [rows, slots] }, leader: { data: Float32Array.from({ length: rows }, (_, r) => Math.floor(r / 2)), shape: [rows, 1] } } }) }), test); });

const given: Signal<'given'> = { id: 'given', as: 'given', cost: 'free' };
const noise = (seed: number) => (i: number): number => { const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453; return Math.fround(x - Math.floor(x)); };
const cases = fc.record({ H: fc.integer({ min: 1, max: 5 }), query: fc.integer({ min: 1, max: 4 }), heads: fc.constantFrom(0, 0.4, 0.8, 1), measure: fc.nat(4), sinks: fc.nat(2), local: fc.integer({ min: 1, max: 3 }), middle: fc.nat(5), size: fc.integer({ min: 3, max: 15 }), steps: fc.integer({ min: 1, max: 10 }), seed: fc.integer({ min: 1, max: 9999 }) });

test('agrees with the oracle over generated tokens: what every head sees', () => {
  fc.assert(fc.property(cases, ({ H, middle, size, steps, seed, ...options }) => {
    const budget = options.sinks + options.local + middle, sizes = Array.from({ length: steps }, (_, i) => size + 1 + i), { ops } = cpu;
    const scores = sizes.map((n, i) => Array.from({ length: H }, (_, h) => Array.from({ length: n }, (__, p) => Math.fround(noise(seed)(p) + 0.3 * noise(seed + h + 7 * i)(p)))));
    const policy = compose(scorer('given', [given], ({ given: g }) => g), mandatory({ sinks: options.sinks, recent: options.local }), topK(), sharedSets(options)), hook = compile(view(policy, { budget })).hooks('view')[0] as ViewHook, states = new Map<string, Tensor>();
    const want = hshareOracle(scores, sizes, { ...options, budget });
    const got = sizes.map((n, i) => {
      const at = { layer: 0, layers: 1, queryHeads: H, kvHeads: 1, headDim: 1, step: 1 + i, promptLength: size, length: n, slots: n, aligned: true, budget, selectRows: H };
      const { mask, state } = hook.run({ at, ops, draft: { budgets: ops.from({ data: [budget], shape: [1, 1] }), state: new Map(), checks: [] }, read: <V>(signal: { id: string }): V => {
        if (isState(signal as never)) {
          const old = states.get(signal.id), wide = signal.id.endsWith('sets') ? n : old?.shape[1] ?? 1, data = new Float32Array(H * wide);
          if (old) { const from = readCpu(old); for (let h = 0; h < H; h++) data.set(from.data.subarray(h * from.shape[1]!, (h + 1) * from.shape[1]!), h * wide); }
          return ops.from({ data, shape: [H, wide] }) as V;
        }
        if (signal.id === 'given') return ops.from({ data: Float32Array.from(scores[i]!.flat()), shape: [H, n] }) as V;
        return ops.from({ data: Uint32Array.from({ length: n }, (_, p) => p), shape: [1, n] }, 'u32') as V;
      } });
      for (const [id, tensor] of state!) states.set(id, tensor);
      const bits = readCpu(mask!).data;
      return Array.from({ length: H }, (_, h) => Array.from({ length: n }, (__, p) => p).filter((p) => bits[h * n + p] !== 0));
    });
    expect(got).toEqual(want);
  }), { numRuns: 150 });
});
test('greedy sharing by hand: 3 uses 1, then 2 uses 0; a chain ends at its last head', () => {
  const run = (rows: number[][], share: number): number[] => Array.from(readCpu(cpu.ops.kernel(leaders, { overlap: cpu.ops.from({ data: Float32Array.from(rows.flat()), shape: [rows.length, rows.length] }) }, { share })).data);
  const overlap = [[0, 0, 0, 0], [1, 0, 0, 0], [5, 4, 0, 0], [2, 9, 3, 0]];
  expect(run(overlap, 1)).toEqual([0, 1, 2, 1]);
  expect(run(overlap, 2)).toEqual([0, 1, 0, 1]);
  expect(run(overlap, 3)).toEqual([0, 0, 0, 0]);
});
test.each([['query', { query: 0 }], ['heads', { heads: 1.1 }], ['measure', { measure: -1 }], ['sinks', { sinks: 0.5 }]])('%s is checked', (name, options) => { expect(() => sharedSets(options)).toThrow(`sharedSets: ${name} must be`); });
