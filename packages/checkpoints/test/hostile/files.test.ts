import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readGguf, type GgufFile } from '../../src/format/gguf.ts';
import type { GgufValue } from '../../src/format/gguf-metadata.ts';
import { openSafetensors } from '../../src/format/safetensors-shards.ts';
import { readSafetensors } from '../../src/format/safetensors.ts';
import type { CheckpointTensors } from '../../src/format/tensor-file.ts';
import { tensorTypes, toFloat32, weightType, type TensorType } from '../../src/format/tensor-types.ts';
import {
  bool,
  f32,
  i32,
  i64,
  kind,
  list,
  string,
  u16,
  u32,
  u64,
  u8,
  writeGguf,
  type GgufValueBytes,
} from '@kv/model-testing/gguf-file';
import { writeSafetensors, type TensorBytes } from '@kv/model-testing/safetensors-file';
import { hostile, inputs, outcome, patience, watchReads } from '@kv/model-testing/hostile/outcome';
import { bending, bent, edge, jsonBytes, corrupt } from '@kv/model-testing/hostile/spoilt';

/** Reads every tensor; each has the bytes that its shape needs, and all together no more than the file. */
async function readAll(file: CheckpointTensors, size: number): Promise<void> {
  let total = 0;
  for (const [name, { type, shape }] of file.tensors) {
    const bytes = await outcome(() => file.bytes(name));
    if (bytes === undefined) {
      expect(Object.keys(tensorTypes)).not.toContain(type);
      continue;
    }
    const known = weightType(type, name);
    const { numbers, bytes: block } = tensorTypes[known];
    const count = shape.reduce((all, n) => all * n, 1);
    expect(bytes.length).toBe((count / numbers) * block);
    expect(toFloat32(known, bytes).length).toBe(count);
    total += bytes.length;
  }
  expect(total).toBeLessThanOrEqual(size);
}

const written = (types: readonly string[]): fc.Arbitrary<Record<string, TensorBytes>> =>
  fc.dictionary(
    fc.constantFrom('a', 'b', 'c', '__proto__', 'model.embed_tokens.weight'),
    fc
      .record({ dtype: fc.constantFrom(...types), shape: fc.array(fc.nat(3), { maxLength: 3 }) })
      .map(({ dtype, shape }) => {
        const item = { F32: 4, F16: 2, BF16: 2, I64: 8, BOOL: 1 }[dtype]!;
        return {
          dtype: dtype as TensorBytes['dtype'],
          shape,
          bytes: new Uint8Array(item * shape.reduce((a, b) => a * b, 1)).fill(63),
        };
      }),
    { maxKeys: 4 },
  );

const safetensors = fc
  .tuple(written(['F32', 'F16', 'BF16', 'I64', 'BOOL']), bending)
  .map(([tensors, bend]) => writeSafetensors(tensors, (header) => bend(header) as object));

test(
  'safetensors: loads what its header says, or one sentence',
  async () => {
    await hostile(
      corrupt(safetensors),
      async (bytes) => {
        const { source, read } = watchReads(bytes, 'f');
        const file = await outcome(() => readSafetensors(source));
        expect(read()).toBeLessThanOrEqual(bytes.length);
        if (file !== undefined) await readAll(file, bytes.length);
        return file !== undefined;
      },
      inputs(0.3, 1500),
    );
  },
  patience,
);

const shardNames = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const;
const shards = fc.tuple(written(['F32', 'F16']), written(['F32', 'F16'])).map(([a, b]) => {
  const second = Object.fromEntries(
    Object.entries(b).map(([name, tensor]) => [Object.hasOwn(a, name) ? `${name}2` : name, tensor]),
  );
  const map = Object.fromEntries([
    ...Object.keys(a).map((name) => [name, shardNames[0]]),
    ...Object.keys(second).map((name) => [name, shardNames[1]]),
  ]);
  return {
    index: { metadata: { total_size: 0 }, weight_map: map },
    files: [writeSafetensors(a), writeSafetensors(second)] as const,
  };
});
const sharded = shards.chain(({ index, files }) =>
  fc.tuple(
    corrupt(bent(fc.constant<unknown>(index)).map(jsonBytes)),
    fc.constant(files[0]),
    fc.oneof({ weight: 4, arbitrary: fc.constant(files[1]) }, { weight: 1, arbitrary: corrupt(fc.constant(files[1])) }),
  ),
);

test(
  'index.json: opens only the files that are there, reads each once, closes all',
  async () => {
    await hostile(
      sharded,
      async ([index, ...files]) => {
        const opened: ReturnType<typeof watchReads>[] = [];
        const file = await outcome(() =>
          openSafetensors(async (name) => {
            expect(name).toMatch(/^[\w.-]+$/);
            const bytes =
              name === 'model.safetensors.index.json'
                ? index
                : files[shardNames.indexOf(name as (typeof shardNames)[0])];
            if (bytes === undefined) return undefined;
            opened.push(watchReads(bytes, name));
            return opened.at(-1)!.source;
          }, 'F'),
        );
        if (file !== undefined) {
          await readAll(file, files[0].length + files[1].length);
          await file.close();
        }
        expect(opened.filter(({ open }) => open())).toEqual([]);
        expect(opened.length).toBeLessThanOrEqual(3);
        return file !== undefined;
      },
      inputs(0.14, 700),
    );
  },
  patience,
);

/** Mostly null, sometimes a wrong value. */
const seldom = <T>(lie: fc.Arbitrary<T>): fc.Arbitrary<T | null> =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: lie });

const scalar: fc.Arbitrary<GgufValueBytes> = fc.oneof(
  ...[
    fc.nat(255).map(u8),
    fc.nat(65_535).map(u16),
    fc.nat().map(u32),
    fc.integer().map(i32),
    fc.nat(1).map(bool),
    fc.float().map(f32),
    fc.maxSafeInteger().map(i64),
    fc.string({ maxLength: 8 }).map(string),
  ].map((arbitrary) => ({ weight: 5, arbitrary })),
  ...[
    edge.map(u64),
    edge.map(i64),
    fc.nat(255).map(bool),
    fc.record({ kind: fc.nat(15), bytes: fc.uint8Array({ maxLength: 12 }) }),
  ].map((arbitrary) => ({ weight: 1, arbitrary })),
);
const many: fc.Arbitrary<GgufValueBytes> = fc.oneof(
  fc
    .tuple(fc.array(fc.string({ maxLength: 6 }), { maxLength: 5 }), seldom(edge))
    .map(([texts, lie]) => list(kind.string, texts.map(string), lie ?? texts.length)),
  fc
    .tuple(fc.array(fc.integer(), { maxLength: 5 }), seldom(edge))
    .map(([numbers, lie]) => list(kind.i32, numbers.map(i32), lie ?? numbers.length)),
  fc
    .tuple(fc.nat(7), seldom(edge))
    .map(([depth, lie]) =>
      Array.from({ length: depth }).reduce<GgufValueBytes>(
        (inner) => list(kind.list, [inner], lie ?? 1),
        list(kind.u8, [u8(7)]),
      ),
    ),
);
const metadata = fc
  .tuple(fc.array(fc.oneof(scalar, many), { maxLength: 4 }), seldom(fc.nat(3)))
  .map(([values, twice]) => values.map((value, i) => [i === twice ? 'k0' : `k${i}`, value] as const));
const ids: Readonly<Record<number, TensorType>> = {
  0: 'F32',
  1: 'F16',
  2: 'Q4_0',
  3: 'Q4_1',
  6: 'Q5_0',
  7: 'Q5_1',
  8: 'Q8_0',
  12: 'Q4_K',
  13: 'Q5_K',
  14: 'Q6_K',
  20: 'IQ4_NL',
  30: 'BF16',
  39: 'MXFP4',
};

/** A file with contiguous tensors, except where a field is wrong. */
const gguf = fc
  .record({
    values: metadata,
    alignment: fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom(null, 1, 8, 16, 32, 64) },
      { weight: 1, arbitrary: fc.constantFrom(24, 0) },
    ),
    tensors: fc.array(
      fc.record({
        type: fc.oneof(
          { weight: 9, arbitrary: fc.constantFrom(...Object.keys(ids).map(Number)) },
          { weight: 1, arbitrary: fc.nat(45) },
        ),
        rows: fc.array(fc.nat(2), { maxLength: 3 }),
        blocks: fc.nat(2),
        lie: seldom(fc.record({ at: fc.nat(4), value: edge })),
      }),
      { maxLength: 4 },
    ),
    counts: fc.record({ tensorCount: edge, metadataCount: edge }, { requiredKeys: [] }),
    lies: fc.nat(12),
    version: fc.oneof({ weight: 20, arbitrary: fc.constantFrom(2, 3) }, { weight: 1, arbitrary: fc.nat(4) }),
  })
  .map(({ values, alignment, tensors, counts, lies, version }) => {
    let offset = 0;
    const step = alignment || 32;
    const infos = tensors.map(({ type, rows, blocks, lie }, i) => {
      const { numbers, bytes } = tensorTypes[ids[type] ?? 'F32'];
      const dimensions: (number | bigint)[] = [blocks * numbers, ...rows];
      const info = { name: `t${i}`, dimensions, type, offset: offset as number | bigint };
      offset = Math.ceil((offset + rows.reduce((all, n) => all * n, blocks * bytes)) / step) * step;
      if (lie !== null && lie.at < dimensions.length) dimensions[lie.at] = lie.value;
      else if (lie !== null) info.offset = lie.value;
      return info;
    });
    const aligned = alignment === null ? [] : [['general.alignment', u32(alignment)] as const];
    return writeGguf({
      version,
      metadata: [...aligned, ...values],
      tensors: infos,
      data: offset,
      ...(lies === 0 ? counts : {}),
    });
  });

/** Counts elements of all lists, and characters of strings; recurses, so the call stack bounds the depth. */
function elements(value: GgufValue): number {
  if (typeof value === 'string') return value.length;
  return Array.isArray(value) ? (value as readonly GgufValue[]).reduce<number>((n, x) => n + 1 + elements(x), 0) : 1;
}

test(
  'gguf: loads what its header says, or one sentence',
  async () => {
    await hostile(
      corrupt(gguf),
      async (bytes) => {
        const { source, read } = watchReads(bytes, 'f');
        const file: GgufFile | undefined = await outcome(() => readGguf(source));
        expect(read()).toBeLessThanOrEqual(bytes.length);
        if (file === undefined) return false;
        expect(elements([...file.metadata.values()])).toBeLessThanOrEqual(bytes.length);
        await readAll(file, bytes.length);
        return true;
      },
      inputs(0.3, 1500),
    );
  },
  patience,
);
