import fc from 'fast-check';
import { expect, test } from 'vitest';
import { dense, type Matrix, deinterleave, denseRows, ownBytes, separate, stack } from '../src/format/matrix.ts';
import { tensorTypes, type TensorType } from '../src/format/tensor-types.ts';

/**
 * Matrices of stored blocks with random bytes, but small, finite scales (an exponent's high bit is cleared everywhere).
 */
const part = (inputs: number, rows: number) =>
  fc
    .constantFrom<TensorType>(
      ...(Object.keys(tensorTypes) as TensorType[]).filter((type) => inputs % tensorTypes[type].numbers === 0),
    )
    .chain((type) => {
      const length = (rows * inputs * tensorTypes[type].bytes) / tensorTypes[type].numbers;
      return fc
        .uint8Array({ minLength: length, maxLength: length })
        .map((bytes) => ({ type, rows, bytes: bytes.map((byte) => byte & 0x3f) }));
    });
const matrices = fc.constantFrom(32, 256).chain((inputs) =>
  fc
    .array(
      fc.constantFrom(8, 16).chain((rows) => part(inputs, rows)),
      { minLength: 1, maxLength: 3 },
    )
    .map((parts): Matrix => ({ inputs, outputs: parts.reduce((n, { rows }) => n + rows, 0), parts })),
);

test('any rows are those of the dense matrix, whatever the types of the parts', () => {
  fc.assert(
    fc.property(matrices, fc.nat(), fc.nat(), (matrix, a, b) => {
      const from = a % matrix.outputs,
        count = b % (matrix.outputs - from + 1);
      expect(denseRows(matrix, from, count)).toEqual(
        dense(matrix).slice(from * matrix.inputs, (from + count) * matrix.inputs),
      );
    }),
    { numRuns: 40 },
  );
  const one: Matrix = { inputs: 2, outputs: 1, parts: [{ type: 'F32', rows: 1, bytes: new Uint8Array(8) }] };
  expect(() => denseRows(one, 1, 1)).toThrowErrorMatchingInlineSnapshot(
    `[KvError: denseRows: expected rows below 1, got 1 from 1]`,
  );
});

test('stacked matrices are their rows one after the other', () => {
  fc.assert(
    fc.property(matrices, (matrix) => {
      const one = (part: Matrix['parts'][number]): Matrix => ({
        inputs: matrix.inputs,
        outputs: part.rows,
        parts: [part],
      });
      expect(stack(matrix.parts.map(one))).toEqual(matrix);
      expect(dense(matrix)).toEqual(Float32Array.from(matrix.parts.flatMap((part) => [...dense(one(part))])));
    }),
    { numRuns: 40 },
  );
});

test('rows of interleaved pairs become halves, quantised as they are', () => {
  fc.assert(
    fc.property(matrices, fc.constantFrom(2, 4, 8), (matrix, d) => {
      const before = dense(matrix),
        after = dense(deinterleave(d)(matrix));
      for (let head = 0; head < matrix.outputs / d; head++)
        for (let i = 0; i < d / 2; i++)
          for (const half of [0, 1]) {
            const [from, to] = [head * d + 2 * i + half, head * d + half * (d / 2) + i];
            expect(after.slice(to * matrix.inputs, (to + 1) * matrix.inputs)).toEqual(
              before.slice(from * matrix.inputs, (from + 1) * matrix.inputs),
            );
          }
    }),
    { numRuns: 40 },
  );
});

test('rows of two kinds of heads that alternate are separated, quantised as they are', () => {
  fc.assert(
    fc.property(matrices, fc.constantFrom(1, 2, 4), ({ inputs, parts: [part] }, d) => {
      const one: Matrix = { inputs, outputs: part.rows, parts: [part] },
        rows = (matrix: Matrix): readonly number[][] =>
          Array.from({ length: part.rows }, (_, r) => [...dense(matrix).subarray(r * inputs, (r + 1) * inputs)]),
        before = rows(one),
        of = (kind: 0 | 1): readonly number[][] => before.filter((_, r) => Math.floor(r / d) % 2 === kind);
      expect(rows(separate(d)(one))).toEqual([...of(0), ...of(1)]);
    }),
    { numRuns: 40 },
  );
});

test('owned bytes are no view of others', () => {
  const whole = Uint8Array.from({ length: 64 }, (_, i) => i),
    view: Matrix = { inputs: 4, outputs: 2, parts: [{ type: 'F32', rows: 2, bytes: whole.subarray(16, 48) }] };
  const [own] = ownBytes(view).parts;
  expect([own.bytes.buffer.byteLength, own.bytes]).toEqual([32, whole.slice(16, 48)]);
  expect(ownBytes({ ...view, parts: [own] }).parts[0].bytes).toBe(own.bytes);
});
