import { shortConvolution, stepTogether } from '@kv/engine';
import { numbers } from '@kv/gpu-testing';
import { generate, loadCache, saveCache, Sequence, type Model } from '@kv/models';
import fc from 'fast-check';
import { expect } from 'vitest';
import { encodeConvolution } from '../src/operations.ts';
import { columns, rowsOf } from '../src/rows.ts';
import { everywhere, gpuTests, near, twice } from './device.ts';
import { both, fixture, relative, said } from './sequences.ts';

const gpuTest = await gpuTests();
const HYBRID = fixture('lfm2');
const ids = (n: number, seed = 0): number[] => Array.from({ length: n }, (_, i) => (i * 37 + 11 + seed) % 64);
const carriedOf = async ({ memory }: Sequence): Promise<readonly Float32Array[]> =>
  (await memory.snapshot()).carried!.map((state) => state.slice());

async function fed(model: Model, tokens: readonly number[], part: number, snapshots = 0): Promise<Sequence> {
  const sequence = new Sequence(model, undefined, { snapshots });
  for await (const _ of sequence.prefillParts(tokens, { part }));
  return sequence;
}

gpuTest('short convolutions of some rows, and the state that they leave, are those of plain loops', (gpu) =>
  everywhere(
    fc.record({
      seed: fc.nat(),
      m: fc.constantFrom(1, 2, 7, 40),
      channels: fc.constantFrom(1, 3, 64, 70),
      length: fc.integer({ min: 2, max: 6 }),
      before: fc.constantFrom(0, 5),
    }),
    async ({ seed, m, channels, length, before }) => {
      const stride = before + 3 * channels,
        data = numbers(seed, m * stride, 'any'),
        rows = new Float32Array(m * 3 * channels),
        kernel = {
          channels,
          length,
          taps: numbers(seed + 1, length * channels, 'any'),
          bias: numbers(seed + 2, channels, 'any'),
        },
        state = numbers(seed + 3, (length - 1) * channels, 'any'),
        size = state.length;
      for (let r = 0; r < m; r++) rows.set(data.subarray(r * stride + before, (r + 1) * stride), r * 3 * channels);
      const [out, next] = await twice(gpu, (commands) => {
        const left = commands.make([1, size]),
          x = columns(rowsOf(commands.upload(data, [m, stride]), stride), before, 3 * channels),
          on = {
            taps: commands.upload(kernel.taps, [length, channels]),
            bias: commands.upload(kernel.bias, [channels]),
          };
        return [encodeConvolution(commands, x, m, on, commands.upload(state, [1, size]), left), left];
      });
      const wanted = shortConvolution(rows, kernel, state);
      near(out, wanted, (_, want) => 1e-5 * (1 + Math.abs(want)), 'outputs');
      near(next, state, (_, want) => 1e-6 * (1 + Math.abs(want)), 'the state');
    },
  ),
);

gpuTest('copies, snapshots, saved caches and frozen tokens of layers that carry states are those of the host', (gpu) =>
  both(gpu, HYBRID, async (host, device) => {
    const near = async (ours: Sequence, theirs: Sequence): Promise<void> => {
      const want = await carriedOf(theirs);
      for (const [i, state] of (await carriedOf(ours)).entries()) expect(relative(state, want[i])).toBeLessThan(1e-5);
      expect(relative((await ours.logits())[0], (await theirs.logits())[0])).toBeLessThan(2e-5);
    };
    const one = await fed(device, ids(22), 4, 3),
      control = await fed(host, ids(22), 4, 3),
      { snapshots } = one.memory.caches.states!;
    await near(one, control);
    expect(snapshots).toEqual(control.memory.caches.states!.snapshots);
    for (const name of ['layer states', 'snapshots'])
      expect(one.memory.ledger.entry(name)).toEqual(control.memory.ledger.entry(name));
    const shorter = one.fork(snapshots[1]),
      alone = await fed(host, ids(22).slice(0, snapshots[1]), 4);
    for (const each of [shorter, alone]) await each.append(ids(5, 3));
    await near(shorter, alone);
    expect(() => one.fork(snapshots[0] + 1)).toThrow("this model's layers carry states, which are known after");
    const copy = one.fork();
    for (const token of ids(3, 5)) await copy.step(token);
    for (const token of ids(2, 9)) for (const each of [one, control]) await each.step(token);
    await near(one, control);
    const loaded = await loadCache(device, await saveCache(control));
    for (const each of [loaded, control]) await each.step(7);
    await near(loaded, control);
    for (const each of [one, control, shorter, alone, copy, loaded]) {
      each.destroy();
      expect(each.memory.ledger.allocated).toBe(0);
    }
    const options = { ids: ids(24), policy: 'etf(psi=0.5,sinks=2)', maxNewTokens: 3, logits: 4 },
      [ours, theirs] = [await generate(device, options), await generate(host, options)];
    for (const [i, row] of theirs.logits!.entries()) expect(relative(ours.logits![i], row)).toBeLessThan(2e-5);
  }),
);

gpuTest('steps ahead of their tokens leave states of their own, and tokens of several sequences theirs', (gpu) =>
  both(gpu, HYBRID, async (host, device) => {
    const options = { ids: ids(12), maxNewTokens: 8 },
      want = await generate(host, options);
    for (const inFlight of [1, 3]) {
      const got = await generate(device, { ...options, inFlight });
      expect([got.tokens, said(got.report)]).toEqual([want.tokens, said(want.report)]);
    }
    const [one, control] = [await fed(device, ids(12), 12), await fed(device, ids(12), 12)];
    for (const each of [one, control]) await each.step(9); // its cache has room for more tokens then
    const guessed = await one.next(undefined, { ahead: 3 }),
      other = (guessed + 1) % 64;
    for (const each of [one, control]) await each.step(other);
    expect(one.stats.counts.rolledBack).toBeGreaterThan(0);
    expect(await carriedOf(one)).toEqual(await carriedOf(control));
    expect(await one.logits()).toEqual(await control.logits());
    const some = await Promise.all([5, 9, 12].map((n) => fed(device, ids(n, n), n))),
      copies = some.map((sequence) => sequence.fork());
    for (const token of [3, 8]) {
      expect(await stepTogether(some.map((sequence) => ({ sequence, token })))).toEqual(some.map(() => undefined));
      for (const [n, copy] of copies.entries()) {
        await copy.step(token);
        expect(await some[n].logits()).toEqual(await copy.logits());
        expect(await carriedOf(some[n])).toEqual(await carriedOf(copy));
      }
    }
    for (const each of [one, control, ...some, ...copies]) each.destroy();
  }),
);
