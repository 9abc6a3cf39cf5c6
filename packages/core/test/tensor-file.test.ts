import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sidecar, readTensorFile, tensorFile } from '../src/index.ts';

const named = fc.dictionary(
  fc.stringMatching(/^[a-z_]{1,8}$/).filter((name) => name !== '__metadata__'),
  fc.array(fc.nat(3), { maxLength: 4 }).chain((shape) =>
    fc
      .array(fc.float({ noNaN: true, noDefaultInfinity: true }), {
        minLength: shape.reduce((a, b) => a * b, 1),
        maxLength: shape.reduce((a, b) => a * b, 1),
      })
      .map((data) => ({ shape, data: Float32Array.from(data) })),
  ),
  { maxKeys: 4, noNullPrototype: true },
);

/** A safetensors file with one tensor of two-byte numbers, made from the format's description. */
function halves(dtype: string, words: readonly number[]): Uint8Array {
  const header = new TextEncoder().encode(
      JSON.stringify({ x: { dtype, shape: [words.length], data_offsets: [0, 2 * words.length] } }),
    ),
    file = new Uint8Array(8 + header.length + 2 * words.length),
    view = new DataView(file.buffer);
  view.setUint32(0, header.length, true);
  file.set(header, 8);
  words.forEach((word, i) => view.setUint16(8 + header.length + 2 * i, word, true));
  return file;
}

describe('a file of tensors', () => {
  test('is read back, with what it says of itself', () => {
    fc.assert(
      fc.property(
        named,
        fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), fc.string({ maxLength: 9 }), {
          maxKeys: 3,
          noNullPrototype: true,
        }),
        (tensors, metadata) => {
          expect(readTensorFile('x', tensorFile({ tensors, metadata }), Object.keys(tensors))).toEqual({
            tensors,
            metadata,
          });
        },
      ),
      { numRuns: 100 },
    );
  });
  test('may hold halves of either kind', () => {
    expect(
      Array.from(readTensorFile('x', halves('F16', [0x3c00, 0xc000, 0x0001, 0x7bff, 0x8000]), ['x']).tensors['x'].data),
    ).toEqual([1, -2, 2 ** -24, 65504, -0]);
    expect(Array.from(readTensorFile('x', halves('BF16', [0x3f80, 0xc000, 0x4049]), ['x']).tensors['x'].data)).toEqual([
      1, -2, 3.140625,
    ]);
  });
  test('of other bytes is refused in one sentence, whatever they are', () => {
    const file = tensorFile({
      tensors: { a: { shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) } },
      metadata: { of: 'it' },
    });
    fc.assert(
      fc.property(fc.nat(file.length - 1), fc.nat(255), fc.nat(file.length), (at, byte, end) => {
        const broken = file.slice(0, end);
        if (at < broken.length) broken[at] = byte;
        try {
          expect(readTensorFile('w', broken, ['a']).tensors['a'].data.every(Number.isFinite)).toBe(true);
        } catch (error) {
          expect(String((error as Error).message)).toMatch(/^w: expected /);
        }
      }),
      { numRuns: 500 },
    );
    for (const [bytes, names, said] of [
      [file, ['b'], "w: expected 'b' as f32, f16 or bf16 inside the file"],
      [file, ['__proto__'], "w: expected '__proto__' as"],
      [new Uint8Array(3), ['a'], 'got 3 bytes'],
      [halves('F16', [0x7c00]), ['x'], "w: expected finite numbers in 'x'"],
      [halves('BF16', [0x7fc0]), ['x'], "w: expected finite numbers in 'x'"],
      [halves('I16', [1]), ['x'], "w: expected 'x' as f32"],
    ] as const)
      expect(() => readTensorFile('w', bytes, names)).toThrow(said);
  });
  test('is read once for all layers of a model, and missed in one sentence', async () => {
    let reads = 0;
    const bytes = new Uint8Array(1),
      signal = sidecar({
        as: 'rows',
        piece: 'mine',
        file: 'rows.bin',
        of: 'rows',
        make: 'make rows',
        read: () => {
          reads++;
          return ['a', 'b'];
        },
      });
    const from = (file: Uint8Array | undefined, layer: number): Promise<string> =>
      signal.provide!({ artifact: async (name: string) => (name === 'rows.bin' ? file : undefined) } as never, layer);
    expect([await from(bytes, 0), await from(bytes, 1), reads]).toEqual(['a', 'b', 1]);
    await expect(from(undefined, 0)).rejects.toThrow(
      "mine: expected rows.bin next to the model, got none: make it with 'make rows'",
    );
    await expect(from(bytes, 2)).rejects.toThrow(
      'rows.bin: expected rows of layer 2, got 2 layers: they are of another model',
    );
  });
});
