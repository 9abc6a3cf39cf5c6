import { beforeAll, describe, expect, test } from 'vitest';
import { loadModel } from '../src/index.ts';
import type { HostDecoder } from '@kv/engine';
import { createAngles, turnRows } from '@kv/engine';
import { emptyCaches, run } from '@kv/engine-testing/run';
import { reference } from '@kv/model-testing/reference';

describe('the decoder', () => {
  let decoder: HostDecoder;
  beforeAll(async () => {
    ({ decoder } = await loadModel(reference('data/goldens/llama')));
  });

  test('counts the rows of every product, layer by layer', async () => {
    const before = structuredClone(decoder.rows);
    await run(decoder, emptyCaches(decoder), [1, 2, 3, 4, 5], { block: 2, want: [1, 4] });
    for (const name of ['qkv', 'output', 'gateUp', 'down'] as const)
      expect(decoder.rows[name].map((x, i) => x - before[name][i])).toEqual(new Float64Array(4).fill(5));
    expect(decoder.rows.head - before.head).toBe(2);
    await decoder.finish(2, new Float32Array(3 * 64), new Float32Array(3 * 64));
    expect(decoder.rows.down.map((x, i) => x - before.down[i])).toEqual(Float64Array.of(5, 5, 8, 5));
  });

  test('its logits are the head of hiddenNorm', async () => {
    const x = decoder.embed([7, 8]);
    const normed = decoder.hiddenNorm(x);
    const logits = await decoder.logits(x);
    const embed = decoder.embed(Array.from({ length: 512 }, (_, id) => id));
    for (const [row, id] of [
      [0, 3],
      [1, 500],
    ] as const) {
      const want = normed.subarray(row * 64, (row + 1) * 64).reduce((sum, v, i) => sum + v * embed[id * 64 + i], 0);
      expect(logits[row * 512 + id]).toBeCloseTo(want, 4);
    }
  });

  test('does not write its inputs', async () => {
    const x = decoder.embed([1, 2, 3]);
    const attended = Float32Array.from({ length: 3 * 64 }, (_, i) => Math.sin(i));
    const [xBefore, attendedBefore] = [x.slice(), attended.slice()];
    await decoder.project(0, x, Uint32Array.of(0, 1, 2));
    await decoder.finish(0, x, attended);
    await decoder.logits(x);
    expect([x, attended]).toEqual([xBefore, attendedBefore]);
  });

  test('refuses ids and layers that it has not', async () => {
    expect(() => decoder.embed([512])).toThrowErrorMatchingInlineSnapshot(
      `[KvError: decoder: a token id must be an integer from 0 to 511, got 512]`,
    );
    expect(() => decoder.embed([-1])).toThrow('a token id must be');
    await expect(
      decoder.project(4, new Float32Array(64), Uint32Array.of(0)),
    ).rejects.toThrowErrorMatchingInlineSnapshot(`[KvError: decoder: a layer must be an integer from 0 to 3, got 4]`);
  });
});

test('rope turns pairs (i, i + d/2): lengths stay, and a score depends on the distance alone', () => {
  const angles = createAngles({ theta: 10_000, rotary: 8 });
  const [a, b] = [Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8), Float32Array.of(2, -1, 0.5, 3, -2, 1, 1, 0)];
  const at = (x: Float32Array, position: number): Float32Array =>
    turnRows(x, 1, 8, angles(Uint32Array.of(position), position + 1));
  const dot = (x: Float32Array, y: Float32Array): number => x.reduce((sum, v, i) => sum + v * y[i], 0);
  expect(at(a, 0)).toEqual(a);
  for (const position of [1, 300, 2047]) expect(dot(at(a, position), at(a, position))).toBeCloseTo(dot(a, a), 3);
  for (const shift of [1, 50, 1000])
    expect(dot(at(a, 7 + shift), at(b, 3 + shift))).toBeCloseTo(dot(at(a, 7), at(b, 3)), 2);
  const quarter = at(Float32Array.of(1, 0, 0, 0, 0, 0, 0, 0), 1);
  expect([quarter[0], quarter[4]]).toEqual([Math.fround(Math.cos(1)), Math.fround(Math.sin(1))]);
});
