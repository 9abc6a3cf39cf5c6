import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { KvError } from '@kv/core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openGguf } from '../src/format/gguf-shards.ts';
import { readGguf } from '../src/format/gguf.ts';
import { bytesSource, fileSource, type ByteSource } from '../src/read/source.ts';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import {
  bool,
  f32,
  i64,
  join,
  kind,
  list,
  string,
  u16,
  u32,
  u64,
  u8,
  writeGguf,
  type GgufParts,
  type GgufWritten,
} from '@kv/model-testing/gguf-file';
import { reference } from '@kv/model-testing/reference';

const written = (file: string): Uint8Array<ArrayBuffer> => Uint8Array.from(readFileSync(fixture(file)));
const open = (bytes: Uint8Array<ArrayBuffer>) => readGguf(bytesSource(bytes, 'f'));
const tensor = (fields: Partial<GgufWritten> = {}): GgufWritten => ({
  name: 't',
  dimensions: [4],
  type: 0,
  offset: 0,
  ...fields,
});

describe('what gguf-py wrote', () => {
  test('every kind of metadata', async () => {
    const { metadata } = await open(written('values.gguf'));
    expect(Object.fromEntries(metadata)).toEqual({
      'general.architecture': 'llama',
      'general.alignment': 64,
      'test.uint8': 255,
      'test.int8': -128,
      'test.uint16': 65_535,
      'test.int16': -32_768,
      'test.uint32': 2 ** 32 - 1,
      'test.int32': -(2 ** 31),
      'test.uint64': 2 ** 53 - 1,
      'test.int64': -(2 ** 53) + 1,
      'test.float32': Math.fround(0.1),
      'test.float64': 0.1,
      'test.true': true,
      'test.false': false,
      'test.string': 'Zwölf Boxkämpfer 🥊',
      'test.empty': '',
      ['__proto__']: 'a name',
      'test.strings': ['a', 'ünï', '', 'a longer one than sixteen bytes'],
      'test.integers': [1, -2, 3],
      'test.floats': [0.5, -1.25],
      'test.bools': [true, false],
      'test.lists': [[1, 2], [3]],
    });
  });

  test('tensors: types, shapes and bytes as its own reader gives them; types that are not read are named', async () => {
    const want = fixtureJson<Record<string, { type: string; shape: number[]; sha256: string }>>('values.json');
    const file = await open(written('values.gguf'));
    expect([...file.tensors.keys()]).toEqual(Object.keys(want));
    for (const [name, { type, shape, sha256 }] of Object.entries(want)) {
      expect(file.tensors.get(name)).toMatchObject({ type, shape });
      if (type === 'I32' || type === 'IQ2_XS')
        await expect(file.bytes(name)).rejects.toThrow(
          `f "${name}": type must be one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4, got ${type}`,
        );
      else
        expect(
          createHash('sha256')
            .update(await file.bytes(name))
            .digest('hex'),
          name,
        ).toBe(sha256);
    }
    await expect(file.bytes('u')).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: f: expected a tensor u, got a file without it]`,
    );
  });

  test('texts of a list are each their own UTF-8', async () => {
    const texts = fc.array(
      fc.oneof(
        fc.string({ unit: 'binary', maxLength: 20 }),
        fc.string({ unit: fc.constantFrom('a', 'é', '日', '🥊', '\u{feff}', '\0'), maxLength: 5 }),
      ),
      { maxLength: 8 },
    );
    await fc.assert(
      fc.asyncProperty(texts, async (values) => {
        expect(
          (await open(writeGguf({ metadata: [['a', list(kind.string, values.map(string))]] }))).metadata.get('a'),
        ).toEqual(values);
      }),
    );
    const bytes = fc.array(fc.uint8Array({ maxLength: 4 }), { minLength: 1, maxLength: 3 });
    const split = fc
      .constantFrom('é', '日', '🥊')
      .chain((c) =>
        fc.nat(4).map((at) => [new TextEncoder().encode(c).subarray(0, at), new TextEncoder().encode(c).subarray(at)]),
      );
    await fc.assert(
      fc.asyncProperty(fc.oneof(bytes, split), async (parts) => {
        const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
        let want: string[] | undefined;
        try {
          want = parts.map((part) => strict.decode(part));
        } catch {
          want = undefined;
        }
        const opened = open(
          writeGguf({
            metadata: [
              [
                'a',
                list(
                  kind.string,
                  parts.map((part) => ({ kind: kind.string, bytes: join(u64(part.length).bytes, part) })),
                ),
              ],
            ],
          }),
        );
        if (want === undefined) await expect(opened).rejects.toThrow('f: metadata "a" must be UTF-8, got other bytes');
        else expect((await opened).metadata.get('a')).toEqual(want);
      }),
      { numRuns: 1000 },
    );
  });

  test('a vocabulary of 4,000', async () => {
    const source = await fileSource(reference('data/models/vocabulary-spm.gguf'));
    const { metadata, tensors } = await readGguf(source);
    await source.close();
    const tokens = metadata.get('tokenizer.ggml.tokens') as readonly string[];
    expect([tensors.size, tokens.length, tokens[13], tokens[340], metadata.get('llama.context_length')]).toEqual([
      0,
      4000,
      '<0x0A>',
      '▁H',
      4096,
    ]);
    expect((metadata.get('tokenizer.ggml.scores') as readonly number[]).length).toBe(4000);
  });
});

describe('parts', () => {
  const part = (no: number): string => `parts-0000${no}-of-00003.gguf`;
  const folder = () => {
    const opened = new Set<string>();
    const open = async (file: string, bytes?: Uint8Array<ArrayBuffer>): Promise<ByteSource | undefined> => {
      const source = bytesSource(bytes ?? written(file), file);
      opened.add(file);
      return { ...source, close: async () => void opened.delete(file) };
    };
    return { opened, open };
  };

  test('of one model are one', async () => {
    const { opened, open } = folder();
    const file = await openGguf(part(1), open);
    expect([...file.tensors.keys()]).toEqual(['t0', 't1', 't2', 't3', 't4']);
    for (let i = 0; i < 5; i++)
      expect(new Float32Array(Uint8Array.from(await file.bytes(`t${i}`)).buffer)).toEqual(
        Float32Array.of(i, i + 1, i + 2, i + 3),
      );
    expect(opened.size).toBe(3);
    await file.close();
    expect(opened.size).toBe(0);
  });

  const split = (no: number, count: number, tensors = 0) =>
    writeGguf({
      metadata: [
        ['split.no', u16(no)],
        ['split.count', u16(count)],
        ['split.tensors.count', u32(tensors)],
      ],
    });
  test.each<[string, string, (file: string) => Uint8Array<ArrayBuffer> | undefined]>([
    ['not the first', part(2), written],
    ['one is missing', part(1), (file) => (file === part(3) ? undefined : written(file))],
    ['one comes twice', part(1), (file) => written(file === part(3) ? part(2) : file)],
    ['one is cut', part(1), (file) => written(file).slice(0, file === part(3) ? -32 : undefined)],
    ['too many', part(1), () => split(0, 60_000)],
    ['another count of tensors', 'm-00001-of-00002.gguf', (file) => split(file.includes('-00001-') ? 0 : 1, 2, 7)],
    ['another name', 'model.gguf', () => split(0, 2)],
    ['no file', 'model.gguf', () => undefined],
  ])('%s', async (_, first, bytes) => {
    const { opened, open } = folder();
    await expect(
      openGguf(first, async (file) => {
        const found = bytes(file);
        return found && open(file, found);
      }),
    ).rejects.toThrowErrorMatchingSnapshot();
    expect(opened.size).toBe(0);
  });
});

describe('a file that is not right', () => {
  const bytesOf = (parts: GgufParts) => () => writeGguf(parts);
  const cut = (parts: GgufParts, by: number) => () => writeGguf(parts).slice(0, -by);
  const two = [tensor({ name: 'a', dimensions: [8] }), tensor({ name: 'b', dimensions: [4], offset: 32 })];
  test.each<[string, () => Uint8Array<ArrayBuffer>]>([
    ['empty', () => new Uint8Array(0)],
    ['another magic number', () => Uint8Array.from([...new TextEncoder().encode('GGML'), 3, 0, 0, 0])],
    ['big-endian', bytesOf({ version: 0x03000000 })],
    ['version 1', bytesOf({ version: 1 })],
    ['version 4', bytesOf({ version: 4 })],
    ['2^62 tensors', bytesOf({ tensorCount: 2n ** 62n })],
    ['a million tensors', bytesOf({ tensorCount: 1_000_000n })],
    ['2^50 metadata values', bytesOf({ metadataCount: 2n ** 50n })],
    [
      'a name twice',
      bytesOf({
        metadata: [
          ['a', u8(1)],
          ['a', u8(1)],
        ],
      }),
    ],
    [
      'a name of other bytes',
      () => writeGguf({ metadata: [['aé', u8(1)]] }).map((byte) => (byte === 0xc3 ? 0xff : byte)),
    ],
    ['a kind that is none', bytesOf({ metadata: [['a', { kind: 13, bytes: new Uint8Array(8) }]] })],
    ['a bool of 2', bytesOf({ metadata: [['a', bool(2)]] })],
    ['a uint64 above 2^53', bytesOf({ metadata: [['a', u64(2n ** 53n)]] })],
    ['an int64 below -2^53', bytesOf({ metadata: [['a', i64(-(2n ** 53n))]] })],
    ['a string of 2^40 bytes', bytesOf({ metadata: [['a', { kind: kind.string, bytes: u64(2n ** 40n).bytes }]] })],
    ['a list of 2^40 strings', bytesOf({ metadata: [['a', list(kind.string, [], 2n ** 40n)]] })],
    ['a list of 2^53 - 1 lists', bytesOf({ metadata: [['a', list(kind.list, [], 2n ** 53n - 1n)]] })],
    [
      'lists five deep',
      bytesOf({ metadata: [['a', [0, 1, 2, 3].reduce((inner) => list(kind.list, [inner]), list(kind.u8, [u8(1)]))]] }),
    ],
    ['an alignment of 24', bytesOf({ metadata: [['general.alignment', u32(24)]] })],
    ['an alignment of 0', bytesOf({ metadata: [['general.alignment', u32(0)]] })],
    ['an alignment in words', bytesOf({ metadata: [['general.alignment', string('32')]] })],
    ['an alignment of a half', bytesOf({ metadata: [['general.alignment', f32(0.5)]] })],
    ['five dimensions', bytesOf({ tensors: [tensor({ dimensions: [1, 1, 1, 1, 1] })], data: 32 })],
    ['a tensor twice', bytesOf({ tensors: [tensor(), tensor({ offset: 32 })], data: 64 })],
    ['a shape that overflows', bytesOf({ tensors: [tensor({ dimensions: [2n ** 32n, 2n ** 32n] })], data: 32 })],
    [
      'a shape that overflows in spite of a zero',
      bytesOf({ tensors: [tensor({ dimensions: [0, 2n ** 32n, 2n ** 32n] })], data: 32 }),
    ],
    ['rows of half a block', bytesOf({ tensors: [tensor({ dimensions: [48, 2], type: 8 })], data: 128 })],
    ['an offset out of line', bytesOf({ tensors: [tensor({ offset: 16 })], data: 64 })],
    ['an offset beyond the file', bytesOf({ tensors: [tensor({ offset: 2n ** 52n })], data: 32 })],
    ['overlapping tensors', bytesOf({ tensors: [two[0], tensor({ name: 'b', dimensions: [4] })], data: 64 })],
    ['data that is cut', cut({ tensors: two, data: 48 }, 1)],
    ['no data', bytesOf({ tensors: two })],
    ['descriptions that are cut', cut({ tensors: two }, 4)],
  ])('%s', async (_, file) => {
    await expect(open(file())).rejects.toThrowErrorMatchingSnapshot();
  });

  test('every prefix of a file is refused, and says that it is cut', async () => {
    const file = writeGguf({
      metadata: [
        ['a', list(kind.string, [string('x'), string('y')])],
        ['b', u64(7)],
      ],
      tensors: two,
      data: 48,
    });
    expect((await open(file)).tensors.size).toBe(2);
    for (let n = 0; n < file.length; n++) {
      const error = await open(file.slice(0, n)).catch((e: unknown) => e);
      if (!KvError.is(error)) throw new Error(`${n} bytes: ${String(error)}`);
      expect(error.message).toMatch(/the file is cut$/);
    }
  });

  test('types that ggml does not have are no obstacle until they are read', async () => {
    const file = await open(
      writeGguf({
        tensors: [tensor(), tensor({ name: 'x', type: 4, offset: 32 }), tensor({ name: 'y', type: 999, offset: 32 })],
        data: 64,
      }),
    );
    expect((await file.bytes('t')).length).toBe(16);
    await expect(file.bytes('y')).rejects.toThrow('got ggml type 999');
  });
});

describe('reading', () => {
  /** A source that has only the beginning of a file and counts the bytes read. */
  const counted = (bytes: Uint8Array<ArrayBuffer>, size: number) => {
    let read = 0;
    const source: ByteSource = {
      name: 'f',
      size,
      async read(offset, length) {
        read += length;
        const out = new Uint8Array(length);
        out.set(bytes.subarray(offset, offset + length));
        return out;
      },
      async close() {},
    };
    return { source, read: () => read };
  };

  test('a header of a file of 100 GB is read, its data is not', async () => {
    const header = writeGguf({ tensors: [tensor({ dimensions: [2 ** 30, 20] })] });
    const { source, read } = counted(header, 100e9);
    expect((await readGguf(source)).tensors.size).toBe(1);
    expect(read()).toBe(2 ** 23);
  });

  test('a header longer than the first read is read on, and one that does not end within 64 MiB is refused', async () => {
    const long = writeGguf({
      metadata: [
        ['a', string('x'.repeat(9_000_000))],
        [
          'b',
          list(
            kind.u8,
            Array.from({ length: 300_000 }, () => u8(7)),
          ),
        ],
      ],
    });
    const { metadata } = await readGguf(counted(long, long.length).source);
    expect([(metadata.get('a') as string).length, (metadata.get('b') as readonly number[]).length]).toEqual([
      9_000_000, 300_000,
    ]);
    const endless = counted(
      join(writeGguf({ metadataCount: 1n }), u64(1).bytes, Uint8Array.of(97), u32(8).bytes, u64(2 ** 33).bytes),
      100e9,
    );
    await expect(readGguf(endless.source)).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: f: expected a header of at most 67108864 bytes, got a longer one]`,
    );
    expect(endless.read()).toBe(2 ** 23 * (1 + 2 + 4 + 8));
    const many = counted(writeGguf({ metadata: [['a', list(kind.u8, [], 2 ** 25)]] }), 100e9);
    await expect(readGguf(many.source)).rejects.toThrowErrorMatchingInlineSnapshot(
      `[KvError: f: expected at most 16777216 elements in all lists of the metadata, got more with metadata "a"]`,
    );
    expect(many.read()).toBe(2 ** 23);
  });
});
