import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { tensorFile } from '@kv/core';
import { expect, test } from 'vitest';
import { sidecars } from '../src/load/sidecar.ts';

const tensors = { a: { shape: [1], data: new Float32Array(1) } };

test('a file next to a model that names another model is refused, one that names none is taken', async () => {
  const name = mkdtempSync(join(tmpdir(), 'kv-sidecar-')),
    fingerprint = 'a'.repeat(64),
    read = sidecars(name, () => ({ fingerprint }));
  writeFileSync(join(name, 'own'), tensorFile({ tensors, metadata: { fingerprint } }));
  writeFileSync(join(name, 'none'), tensorFile({ tensors, metadata: {} }));
  writeFileSync(join(name, 'other'), tensorFile({ tensors, metadata: { fingerprint: 'b'.repeat(64) } }));
  writeFileSync(join(name, 'text'), 'no tensors at all');
  expect((await read('own'))?.length).toBeGreaterThan(8);
  expect((await read('none'))?.length).toBeGreaterThan(8);
  expect((await read('text'))?.length).toBe(17);
  expect(await read('missing')).toBeUndefined();
  await expect(read('other')).rejects.toThrow(
    `${name}/other: expected a file made for ${name} (fingerprint aaaaaaaaaaaa), got one of another model (bbbbbbbbbbbb)`,
  );
});
