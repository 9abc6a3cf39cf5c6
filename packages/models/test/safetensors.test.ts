import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bytesSource, readSafetensors } from '../src/index.ts';
import { f32Bytes, writeSafetensors, type Written } from './safetensors-file.ts';

const open = (bytes: Uint8Array<ArrayBuffer>) => readSafetensors(bytesSource(bytes, 'f'));

/** The value of an IEEE half or bfloat, from the definition. */
function widened(bits: number, exponentBits: number, mantissaBits: number): number {
  const bias = 2 ** (exponentBits - 1) - 1;
  const sign = bits >> (exponentBits + mantissaBits) ? -1 : 1;
  const exponent = (bits >> mantissaBits) & (2 ** exponentBits - 1);
  const fraction = (bits & (2 ** mantissaBits - 1)) / 2 ** mantissaBits;
  if (exponent === 2 ** exponentBits - 1) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
}

const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 });
const tensors = fc.dictionary(
  fc.string({ minLength: 1, maxLength: 8 }).filter((name) => name !== '__metadata__' && name !== '__proto__'),
  shapes.chain((shape) => fc.uint8Array({ minLength: 0, maxLength: 256 }).map((bytes): Written => {
    const size = 4 * shape.reduce((a, b) => a * b, 1);
    return { dtype: 'F32', shape, bytes: Uint8Array.from({ length: size }, (_, i) => bytes[i % Math.max(1, bytes.length)] ?? 0) };
  })),
  { maxKeys: 5, noNullPrototype: true },
);

describe('round trips', () => {
  test('F32: every tensor of a file, by name', async () => {
    await fc.assert(
      fc.asyncProperty(tensors, async (written) => {
        const file = await open(writeSafetensors(written));
        expect([...file.tensors.keys()].sort()).toEqual(Object.keys(written).sort());
        for (const [name, { shape, bytes }] of Object.entries(written)) {
          expect(file.tensors.get(name)?.shape).toEqual(shape);
          const values = await file.read(name);
          const view = new DataView(bytes.buffer);
          expect(values).toEqual(Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true)));
        }
      }),
    );
  });

  test.each([['F16', 5, 10], ['BF16', 8, 7]] as const)('%s: all 65,536 numbers, exactly', async (dtype, exponentBits, mantissaBits) => {
    const bytes = new Uint8Array(2 * 65_536);
    const view = new DataView(bytes.buffer);
    for (let i = 0; i < 65_536; i++) view.setUint16(2 * i, i, true);
    const values = await (await open(writeSafetensors({ t: { dtype, shape: [65_536], bytes } }))).read('t');
    for (let i = 0; i < 65_536; i++) if (!Object.is(values[i], widened(i, exponentBits, mantissaBits))) expect.fail(`${i}: ${values[i]}`);
  });
});

describe('a file that is not right', () => {
  const good: Readonly<Record<string, Written>> = {
    a: { dtype: 'F32', shape: [2, 2], bytes: f32Bytes([1, 2, 3, 4]) },
    b: { dtype: 'F32', shape: [3], bytes: f32Bytes([5, 6, 7]) },
  };
  const spoilt = (name: string, fields: Record<string, unknown>) => writeSafetensors(good, (header) => ({ ...header, [name]: { ...header[name], ...fields } }));
  const headerLength = (length: bigint): Uint8Array<ArrayBuffer> => {
    const file = writeSafetensors(good);
    new DataView(file.buffer).setBigUint64(0, length, true);
    return file;
  };

  test.each<[string, () => Uint8Array<ArrayBuffer>]>([
    ['empty', () => new Uint8Array(0)],
    ['shorter than its length', () => new Uint8Array(5)],
    ['a header longer than the file', () => headerLength(1000n)],
    ['a header of 2^60 bytes', () => headerLength(2n ** 60n)],
    ['a header that is cut', () => headerLength(20n)],
    ['a header that is a list', () => writeSafetensors({}, () => [])],
    ['an entry that is null', () => writeSafetensors({}, () => ({ a: null }))],
    ['an unknown dtype', () => spoilt('a', { dtype: 'F31' })],
    ['a dtype from the prototype', () => spoilt('a', { dtype: 'toString' })],
    ['a negative shape', () => spoilt('a', { shape: [-2, -2] })],
    ['a shape that overflows', () => spoilt('a', { shape: [2 ** 52, 2 ** 52] })],
    ['a shape of another size', () => spoilt('a', { shape: [2, 3] })],
    ['three offsets', () => spoilt('a', { data_offsets: [0, 16, 32] })],
    ['offsets backwards', () => spoilt('a', { data_offsets: [16, 0] })],
    ['overlapping tensors', () => spoilt('b', { data_offsets: [8, 20] })],
    ['a gap', () => spoilt('b', { data_offsets: [20, 32] })],
    ['data that is cut', () => writeSafetensors(good).slice(0, -4)],
    ['data that is left over', () => Uint8Array.from([...writeSafetensors(good), 0])],
  ])('%s', async (_, file) => {
    await expect(open(file())).rejects.toThrowErrorMatchingSnapshot();
  });

  test('a missing tensor and a type that is not read', async () => {
    const file = await open(writeSafetensors({ t: { dtype: 'F32', shape: [2], bytes: f32Bytes([1, 2]) } }, (h) => ({ ...h, t: { ...h.t, dtype: 'I32' } })));
    await expect(file.read('u')).rejects.toThrowErrorMatchingInlineSnapshot(`[KvError: f: expected a tensor u, got a file without it]`);
    await expect(file.read('t')).rejects.toThrowErrorMatchingInlineSnapshot(`[KvError: f t: dtype must be F32, F16 or BF16, got I32]`);
  });

  test('any flipped, cut or inserted bytes: the same tensors or one sentence', async () => {
    const file = writeSafetensors(good);
    const headerEnd = 8 + Number(new DataView(file.buffer).getBigUint64(0, true));
    const edits = fc.array(
      fc.oneof(
        fc.record({ kind: fc.constant('set' as const), at: fc.integer({ min: 0, max: headerEnd }), byte: fc.integer({ min: 0, max: 255 }) }),
        fc.record({ kind: fc.constant('digit' as const), at: fc.integer({ min: 8, max: headerEnd }), byte: fc.integer({ min: 48, max: 57 }) }),
        fc.record({ kind: fc.constant('cut' as const), at: fc.integer({ min: 0, max: file.length }), byte: fc.constant(0) }),
        fc.record({ kind: fc.constant('insert' as const), at: fc.integer({ min: 0, max: file.length }), byte: fc.integer({ min: 0, max: 255 }) }),
      ),
      { minLength: 1, maxLength: 4 },
    );
    await fc.assert(
      fc.asyncProperty(edits, async (list) => {
        let bytes = [...file];
        for (const { kind, at, byte } of list) {
          if (kind === 'set' || (kind === 'digit' && (bytes[at] ?? 0) >= 48 && (bytes[at] ?? 0) <= 57)) bytes[Math.min(at, bytes.length - 1)] = byte;
          else if (kind === 'cut') bytes = bytes.slice(0, at);
          else if (kind === 'insert') bytes.splice(at, 0, byte);
        }
        try {
          const opened = await open(Uint8Array.from(bytes));
          for (const name of opened.tensors.keys()) await opened.read(name);
        } catch (error) {
          if (!KvError.is(error)) throw error;
          expect(error.message).toMatch(/^f.*(expected|must) .*, got .*$/s);
        }
      }),
      { numRuns: 500 },
    );
  });
});
