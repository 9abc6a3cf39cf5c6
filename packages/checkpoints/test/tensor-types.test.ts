import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { dense } from '../src/format/matrix.ts';
import {
  floatRows,
  notFinite,
  tensorTypes,
  toFloat32,
  weightType,
  type TensorType,
} from '../src/format/tensor-types.ts';
import { fixtureJson } from '@kv/model-testing/fixture';

const types = Object.keys(tensorTypes) as TensorType[];
const reference = fixtureJson<Record<string, { blocks: string; numbers: string }>>('quants.json');
const base64 = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** Whole blocks of arbitrary bytes, at any alignment in memory. */
const stored = fc
  .record({
    type: fc.constantFrom(...types),
    count: fc.integer({ min: 0, max: 4 }),
    seed: fc.uint8Array({ minLength: 7, maxLength: 64 }),
    shift: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ type, count, seed, shift }) => {
    const length = count * tensorTypes[type].bytes;
    const all = Uint8Array.from({ length: shift + length }, (_, i) => seed[i % seed.length] ^ (i >> 3));
    return { type, count, bytes: all.subarray(shift) };
  });

/** Returns the value of an IEEE half or bfloat by its definition. */
function widened(bits: number, exponentBits: number, mantissaBits: number): number {
  const bias = 2 ** (exponentBits - 1) - 1;
  const sign = bits >> (exponentBits + mantissaBits) ? -1 : 1;
  const exponent = (bits >> mantissaBits) & (2 ** exponentBits - 1);
  const fraction = (bits & (2 ** mantissaBits - 1)) / 2 ** mantissaBits;
  if (exponent === 2 ** exponentBits - 1) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
}

describe('toFloat32', () => {
  test.each([
    ['F16', 5, 10],
    ['BF16', 8, 7],
  ] as const)('%s: all 65,536 numbers, exactly', (type, exponentBits, mantissaBits) => {
    const bytes = new Uint8Array(2 * 65_536);
    for (let i = 0; i < 65_536; i++) bytes.set([i & 255, i >> 8], 2 * i);
    const values = toFloat32(type, bytes);
    for (let i = 0; i < 65_536; i++)
      if (!Object.is(values[i], widened(i, exponentBits, mantissaBits))) expect.fail(`${i}: ${values[i]}`);
  });

  test.each(Object.keys(reference))(
    '%s: bit for bit what gguf-py gives, also for zero, subnormal, largest, infinite scales and scales that are no number',
    (name) => {
      const { blocks, numbers } = reference[name];
      const bytes = base64(blocks);
      const want = new Float32Array(base64(numbers).buffer);
      const got = toFloat32(weightType(name, 'fixture'), bytes);
      expect(got.length).toBe(want.length);
      expect(want.length).toBeGreaterThan(380);
      for (let i = 0; i < want.length; i++)
        if (!Object.is(got[i], want[i])) expect.fail(`${name} ${i}: ${got[i]}, not ${want[i]}`);
    },
  );

  test('every block type has a reference', () => {
    expect(Object.keys(reference).sort()).toEqual(types.filter((type) => tensorTypes[type].numbers > 1).sort());
  });

  test('blocks are independent, wherever they lie in memory; a given place is filled', () => {
    fc.assert(
      fc.property(stored, ({ type, count, bytes }) => {
        const { numbers, bytes: size } = tensorTypes[type];
        const all = toFloat32(type, bytes);
        expect(all.length).toBe(count * numbers);
        for (let i = 0; i < count; i++)
          expect(toFloat32(type, Uint8Array.from(bytes.subarray(i * size, (i + 1) * size)))).toEqual(
            all.slice(i * numbers, (i + 1) * numbers),
          );
        const place = new Float32Array(count * numbers + 2).fill(0.5);
        toFloat32(type, bytes, place.subarray(1, -1));
        expect(place).toEqual(Float32Array.from([0.5, ...all, 0.5]));
      }),
    );
  });

  test('refuses half a block, a place of another size, and a type that is none', () => {
    expect(() => toFloat32('Q4_1', new Uint8Array(19))).toThrowErrorMatchingInlineSnapshot(
      `[KvError: toFloat32: expected whole blocks of 20 bytes of Q4_1, got 19 bytes]`,
    );
    expect(() => toFloat32('F16', new Uint8Array(4), new Float32Array(3))).toThrowErrorMatchingInlineSnapshot(
      `[KvError: toFloat32: expected room for 2 numbers, got 3]`,
    );
    expect(() => weightType('IQ2_XS', 'f "t"')).toThrowErrorMatchingInlineSnapshot(
      `[KvError: f "t": type must be one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4, got IQ2_XS]`,
    );
    expect(() => weightType('toString', 'f')).toThrow(KvError);
  });
});

test('floatRows: the rows of the whole, and no others', () => {
  fc.assert(
    fc.property(stored, fc.nat(4), fc.nat(4), ({ type, count, bytes }, from, rows) => {
      const inputs = tensorTypes[type].numbers;
      if (from + rows > count) expect(() => floatRows(type, bytes, inputs, from, rows)).toThrow(KvError);
      else
        expect(floatRows(type, bytes, inputs, from, rows)).toEqual(
          toFloat32(type, bytes).slice(from * inputs, (from + rows) * inputs),
        );
    }),
  );
  expect(() => floatRows('Q8_0', new Uint8Array(68), 32, 1, 2)).toThrowErrorMatchingInlineSnapshot(
    `[KvError: floatRows: expected rows below 2, got 2 from 1]`,
  );
  expect(() => floatRows('Q8_0', new Uint8Array(68), 48, 0, 1)).toThrowErrorMatchingInlineSnapshot(
    `[KvError: floatRows: expected rows of whole blocks of 32 numbers of Q8_0, got rows of 48]`,
  );
});

test('notFinite: -1 exactly if all numbers are finite, else the block of the first that is not', () => {
  const spoilt = fc.tuple(
    stored,
    fc.option(fc.record({ at: fc.nat(1000), half: fc.constantFrom(0x7c00, 0xfc00, 0x7e01, 0x7f80, 0xffff, 0x7bff) })),
  );
  fc.assert(
    fc.property(spoilt, ([{ type, bytes }, spoil]) => {
      if (spoil !== null && bytes.length > 0)
        bytes.set([spoil.half & 255, spoil.half >> 8], (spoil.at % Math.floor(bytes.length / 2)) * 2);
      const first = toFloat32(type, bytes).findIndex((x) => !Number.isFinite(x));
      const { numbers } = tensorTypes[type];
      expect(notFinite(type, bytes)).toBe(first < 0 ? -1 : Math.floor(first / numbers) * numbers);
    }),
    { numRuns: 2000 },
  );
});

test('dense: parts of several types one above the other', () => {
  const q8 = base64(reference.Q8_0.blocks).subarray(0, 68);
  const f32 = Float32Array.from({ length: 32 }, (_, i) => i / 3);
  const matrix = {
    outputs: 3,
    inputs: 32,
    parts: [
      { type: 'Q8_0', rows: 2, bytes: q8 },
      { type: 'F32', rows: 1, bytes: new Uint8Array(f32.buffer) },
    ],
  } as const;
  expect(dense(matrix)).toEqual(Float32Array.from([...toFloat32('Q8_0', q8), ...f32]));
});
