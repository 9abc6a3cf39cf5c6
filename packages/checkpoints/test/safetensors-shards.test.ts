import { describe, expect, test } from 'vitest';
import { openSafetensors } from '../src/format/safetensors-shards.ts';
import { bytesSource } from '../src/read/source.ts';
import { f32Bytes, writeSafetensors } from '@kv/model-testing/safetensors-file';

type Files = Record<string, Uint8Array<ArrayBuffer>>;
const index = 'model.safetensors.index.json';
const json = (value: unknown): Uint8Array<ArrayBuffer> => new TextEncoder().encode(JSON.stringify(value));
const shard = (...names: string[]) =>
  writeSafetensors(
    Object.fromEntries(
      names.map((name) => [name, { dtype: 'F32', shape: [2], bytes: f32Bytes([name.charCodeAt(0), 1]) }]),
    ),
  );
const one = 'model-00001-of-00002.safetensors';
const two = 'model-00002-of-00002.safetensors';
const map = (weight_map: unknown): Files => ({
  [one]: shard('a', 'b'),
  [two]: shard('c'),
  [index]: json({ metadata: { total_size: 24 }, weight_map }),
});
const good = { a: one, b: one, c: two };

/** A folder in memory that counts open files. */
function folder(files: Files) {
  const opened: string[] = [];
  return {
    opened,
    open: async (file: string) => {
      if (!Object.hasOwn(files, file)) return undefined;
      opened.push(file);
      return { ...bytesSource(files[file], file), close: async () => void opened.splice(opened.indexOf(file), 1) };
    },
  };
}

test('shards are one file; the index is closed, the shards with the whole', async () => {
  const { open, opened } = folder(map(good));
  const file = await openSafetensors(open, 'F');
  expect([file.name, [...file.tensors.keys()].sort(), opened]).toEqual([index, ['a', 'b', 'c'], [one, two]]);
  for (const name of ['a', 'b', 'c'])
    expect(new Float32Array(Uint8Array.from(await file.bytes(name)).buffer)).toEqual(
      Float32Array.of(name.charCodeAt(0), 1),
    );
  await expect(file.bytes('d')).rejects.toThrowErrorMatchingInlineSnapshot(
    `[KvError: model.safetensors.index.json: expected a tensor d, got a file without it]`,
  );
  await file.close();
  expect(opened).toEqual([]);
});

test('a single file comes first', async () => {
  const file = await openSafetensors(folder({ ...map(good), 'model.safetensors': shard('x') }).open, 'F');
  expect([file.name, ...file.tensors.keys()]).toEqual(['model.safetensors', 'x']);
});

test('blocks of MXFP4 and their scales may be in two shards', async () => {
  const half = (name: string, shape: readonly number[], bytes: readonly number[]) =>
    writeSafetensors({ [name]: { dtype: 'U8', shape, bytes: Uint8Array.from(bytes) } });
  const file = await openSafetensors(
    folder({
      [one]: half('w_blocks', [1, 1, 16], [0x21, ...Array<number>(15).fill(0)]),
      [two]: half('w_scales', [1, 1], [128]),
      [index]: json({ weight_map: { w_blocks: one, w_scales: two } }),
    }).open,
    'F',
  );
  expect([...file.tensors]).toMatchObject([['w', { type: 'MXFP4', shape: [1, 32] }]]);
  expect(await file.bytes('w')).toEqual(Uint8Array.from([128, 1, 2, ...Array<number>(14).fill(0)]));
});

describe('a checkpoint that is not right: one sentence, nothing left open', () => {
  test.each<[string, Files]>([
    ['neither file', {}],
    ['a broken single file', { 'model.safetensors': shard('a').slice(0, -1) }],
    ['an index that is a list', { [index]: json([]) }],
    ['no weight_map', { [index]: json({ metadata: {} }) }],
    ['an empty weight_map', map({})],
    ['a shard that is missing', map({ ...good, d: 'model-00003-of-00003.safetensors' })],
    ['a tensor that its shard lacks', map({ ...good, d: two })],
    ['a tensor that is in the other shard', map({ ...good, c: one })],
    ['a tensor in two shards', { ...map(good), [two]: shard('b', 'c') }],
    ['a shard that is cut', { ...map(good), [two]: shard('c').slice(0, -1) }],
    ['a shard above the folder', map({ ...good, c: '../other.safetensors' })],
    ['a shard by an absolute path', map({ ...good, c: '/etc/x.safetensors' })],
    ['a shard in a folder', map({ ...good, c: 'a\\b.safetensors' })],
    ['a hidden shard', map({ ...good, c: '.safetensors' })],
    ['a shard on a line of its own', map({ ...good, c: `${two}\n` })],
    ['a shard of another kind', map({ ...good, c: 'pytorch_model.bin' })],
    ['a shard that is a number', map({ ...good, c: 2 })],
    [
      'a thousand and one shards',
      map(Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`t${i}`, `s${i}.safetensors`]))),
    ],
  ])('%s', async (_, files) => {
    const { open, opened } = folder(files);
    await expect(openSafetensors(open, 'F')).rejects.toThrowErrorMatchingSnapshot();
    expect(opened).toEqual([]);
  });
});
