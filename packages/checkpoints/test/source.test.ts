import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { fileSource } from '../src/read/source.ts';

const folder = mkdtempSync(join(tmpdir(), 'kv-source-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('a tensor of more bytes than an array has is one sentence', async () => {
  const path = join(folder, 'large'),
    size = 2 ** 42; // a file without blocks takes no space
  writeFileSync(path, '');
  truncateSync(path, size);
  const source = await fileSource(path);
  await expect(source.read(0, size)).rejects.toThrow(
    `${path}: expected tensors that fit into an array, got one of ${size} bytes (`,
  );
  expect(await source.read(size - 2, 2)).toEqual(Uint8Array.of(0, 0));
  await source.close();
});
