import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readSafetensors } from '../src/format/safetensors.ts';
import { bytesSource } from '../src/read/source.ts';
import type { CheckpointTensors } from '../src/format/tensor-file.ts';
import { toFloat32, weightType } from '../src/format/tensor-types.ts';
import { fixtureJson } from '@kv/model-testing/fixture';
import { f32Bytes, writeSafetensors, type TensorBytes } from '@kv/model-testing/safetensors-file';

const open = (bytes: Uint8Array<ArrayBuffer>) => readSafetensors(bytesSource(bytes, 'f'));
const read = async (file: CheckpointTensors, name: string): Promise<Float32Array> => {
  const bytes = await file.bytes(name);
  return toFloat32(weightType(file.tensors.get(name)?.type ?? 'none', file.name), bytes);
};

const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 });
const tensors = fc.dictionary(
  fc.string({ minLength: 1, maxLength: 8 }).filter((name) => name !== '__metadata__' && name !== '__proto__'),
  shapes.chain((shape) =>
    fc.uint8Array({ minLength: 0, maxLength: 256 }).map((bytes): TensorBytes => {
      const size = 4 * shape.reduce((a, b) => a * b, 1);
      return {
        dtype: 'F32',
        shape,
        bytes: Uint8Array.from({ length: size }, (_, i) => bytes[i % Math.max(1, bytes.length)] ?? 0),
      };
    }),
  ),
  { maxKeys: 5, noNullPrototype: true },
);

test('blocks of MXFP4 and their scales are one tensor, to the bit that of llama.cpp, with the numbers of transformers', async () => {
  const { shape, ...texts } = fixtureJson<
      Record<'blocks' | 'scales' | 'gguf' | 'values', string> & { shape: number[] }
    >('mxfp4.json'),
    bytes = (of: keyof typeof texts): Uint8Array<ArrayBuffer> => Uint8Array.from(Buffer.from(texts[of], 'base64')),
    [experts, rows, n] = shape;
  const file = await open(
    writeSafetensors({
      'experts.w_scales': { dtype: 'U8', shape: [experts, rows, n / 32], bytes: bytes('scales') },
      'experts.w_blocks': { dtype: 'U8', shape: [experts, rows, n / 32, 16], bytes: bytes('blocks') },
    }),
  );
  expect([...file.tensors.keys()]).toEqual(['experts.w']);
  expect(file.tensors.get('experts.w')).toMatchObject({ type: 'MXFP4', shape });
  expect(await file.bytes('experts.w')).toEqual(bytes('gguf'));
  const want = new Float32Array(bytes('values').buffer);
  // transformers has a zero of either sign, llama.cpp one
  expect((await read(file, 'experts.w')).every((x, i) => x === want[i])).toBe(true);
});

describe('round trips', () => {
  test('F32: every tensor of a file, by name', async () => {
    await fc.assert(
      fc.asyncProperty(tensors, async (written) => {
        const file = await open(writeSafetensors(written));
        expect([...file.tensors.keys()].sort()).toEqual(Object.keys(written).sort());
        for (const [name, { shape, bytes }] of Object.entries(written)) {
          expect(file.tensors.get(name)?.shape).toEqual(shape);
          const values = await read(file, name);
          const view = new DataView(bytes.buffer);
          expect(values).toEqual(
            Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true)),
          );
        }
      }),
    );
  });

  test('types that are no weights are no obstacle until they are read, also those of less than a byte', async () => {
    const types = { BOOL: 2, I64: 16, F4: 1, F6_E2M3: 1.5, F8_E8M0: 2, C64: 16 };
    for (const [dtype, size] of Object.entries(types)) {
      const shape = size === 1.5 ? [4] : [2];
      const bytes = new Uint8Array(size === 1.5 ? 3 : size);
      const file = await open(
        writeSafetensors(
          { a: { dtype: 'F32', shape: [1], bytes: f32Bytes([7]) }, b: { dtype: 'F32', shape, bytes } },
          (h) => ({ ...h, b: { ...h.b, dtype } }),
        ),
      );
      expect(file.tensors.get('b')).toMatchObject({ type: dtype, shape });
      expect(await read(file, 'a')).toEqual(Float32Array.of(7));
      await expect(file.bytes('b')).rejects.toThrow(`type must be one of F32, F16, BF16`);
    }
  });
});

describe('a file that is not right', () => {
  const good: Readonly<Record<string, TensorBytes>> = {
    a: { dtype: 'F32', shape: [2, 2], bytes: f32Bytes([1, 2, 3, 4]) },
    b: { dtype: 'F32', shape: [3], bytes: f32Bytes([5, 6, 7]) },
  };
  const spoilt = (name: string, fields: Record<string, unknown>) =>
    writeSafetensors(good, (header) => ({ ...header, [name]: { ...header[name], ...fields } }));
  const headerLength = (length: bigint): Uint8Array<ArrayBuffer> => {
    const file = writeSafetensors(good);
    new DataView(file.buffer).setBigUint64(0, length, true);
    return file;
  };

  /** Replaces a part of the header's text and adapts its length. */
  const renamed = (from: string, to: string): Uint8Array<ArrayBuffer> => {
    const file = writeSafetensors(good);
    const headerEnd = 8 + Number(new DataView(file.buffer).getBigUint64(0, true));
    const json = new TextEncoder().encode(new TextDecoder().decode(file.subarray(8, headerEnd)).replace(from, to));
    const out = new Uint8Array(8 + json.length + file.length - headerEnd);
    new DataView(out.buffer).setBigUint64(0, BigInt(json.length), true);
    out.set(json, 8);
    out.set(file.subarray(headerEnd), 8 + json.length);
    return out;
  };

  test.each<[string, () => Uint8Array<ArrayBuffer>]>([
    ['empty', () => new Uint8Array(0)],
    ['shorter than its length', () => new Uint8Array(5)],
    ['a header longer than the file', () => headerLength(1000n)],
    ['a header of 2^60 bytes', () => headerLength(2n ** 60n)],
    ['a header that is cut', () => headerLength(20n)],
    ['a name twice', () => renamed('"b"', '"a"')],
    ['a name twice, once in escapes', () => renamed('"b"', '"\\u0061"')],
    ['a tensor named __proto__ that is cut', () => renamed('"b"', '"__proto__"').slice(0, -1)],
    ['a header of lists in lists', () => writeSafetensors({}, () => ({ a: { shape: [[[]]] } }))],
    [
      'a shape that overflows in spite of a zero',
      () => spoilt('a', { shape: [0, 2 ** 52, 2 ** 52], data_offsets: [0, 0] }),
    ],
    ['a header that is a list', () => writeSafetensors({}, () => [])],
    ['an entry that is null', () => writeSafetensors({}, () => ({ a: null }))],
    ['an unknown dtype', () => spoilt('a', { dtype: 'F31' })],
    ['a dtype from the prototype', () => spoilt('a', { dtype: 'toString' })],
    ['a negative shape', () => spoilt('a', { shape: [-2, -2] })],
    ['a shape that overflows', () => spoilt('a', { shape: [2 ** 52, 2 ** 52] })],
    ['a shape of another size', () => spoilt('a', { shape: [2, 3] })],
    ['a shape of fewer bytes', () => spoilt('a', { shape: [2, 1] })],
    ['three offsets', () => spoilt('a', { data_offsets: [0, 16, 32] })],
    ['offsets backwards', () => spoilt('a', { data_offsets: [16, 0] })],
    ['overlapping tensors', () => spoilt('b', { data_offsets: [8, 20] })],
    ['a gap', () => spoilt('b', { data_offsets: [20, 32] })],
    ['data that is cut', () => writeSafetensors(good).slice(0, -4)],
    ['data that is left over', () => Uint8Array.from([...writeSafetensors(good), 0])],
  ])('%s', async (_, file) => {
    await expect(open(file())).rejects.toThrowErrorMatchingSnapshot();
  });

  test('scales of MXFP4 that do not fit their blocks', async () => {
    const pair = (shape: readonly number[], scales: readonly number[]) =>
      open(
        writeSafetensors({
          w_blocks: { dtype: 'U8', shape, bytes: new Uint8Array(shape.reduce((a, b) => a * b, 1)) },
          w_scales: { dtype: 'U8', shape: scales, bytes: new Uint8Array(scales.reduce((a, b) => a * b, 1)) },
        }),
      );
    await expect(pair([2, 3, 16], [3, 2])).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: f: w_scales must have shape [2,3], got [3,2]]`,
    );
    await expect(pair([2, 3, 15], [2, 3])).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: f: w_blocks must have shape [..., 16], got [2,3,15]]`,
    );
  });

  test('a missing tensor and a type that is not read', async () => {
    const file = await open(
      writeSafetensors({ t: { dtype: 'F32', shape: [2], bytes: f32Bytes([1, 2]) } }, (h) => ({
        ...h,
        t: { ...h.t, dtype: 'I32' },
      })),
    );
    await expect(file.bytes('u')).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: f: expected a tensor u, got a file without it]`,
    );
    await expect(file.bytes('t')).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: f "t": type must be one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4, got I32]`,
    );
  });
});
