import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { cachedModels } from '../src/index.ts';

it('lists complete checkpoints and GGUF files of the cache, and nothing half-downloaded', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kv-cached-'));
  const repo = (name: string, files: Record<string, number | string>): void => {
    const snapshot = join(folder, name, 'snapshots', '0'.repeat(40));
    for (const [path, bytes] of Object.entries(files)) {
      mkdirSync(join(snapshot, path, '..'), { recursive: true });
      writeFileSync(join(snapshot, path), typeof bytes === 'string' ? bytes : Buffer.alloc(bytes));
    }
  };
  const shards = ['model-00001-of-2.safetensors', 'model-00002-of-2.safetensors'] as const,
    index = JSON.stringify({ weight_map: { a: shards[0], b: shards[1] } }),
    sharded = { 'config.json': 2, 'tokenizer.json': 2, 'model.safetensors.index.json': index };
  repo('models--org--b-name', { ...sharded, [shards[0]]: 30, [shards[1]]: 4 });
  repo('models--org--half', { ...sharded, [shards[0]]: 30 });
  repo('models--org--words', { 'config.json': 2, 'model.safetensors': 30 });
  repo('models--org--a', {
    'sub/x.Q4_K_M.gguf': 7,
    'mmproj-f16.gguf': 3,
    'sub/x.mmproj-f16.gguf': 3,
    'sub/x.imatrix.gguf': 3,
    'big-00001-of-00002.gguf': 9,
    'big-00002-of-00002.gguf': 8,
    'cut-00002-of-00002.gguf': 8,
    'late-00001-of-00002.gguf': 8,
  });
  repo('models--org--torn', { 'config.json': 2, 'tokenizer.json': 2 });
  symlinkSync('../../blobs/none', join(folder, 'models--org--torn/snapshots', '0'.repeat(40), 'model.safetensors'));
  repo('datasets--org--d', { 'model.safetensors': 3, 'config.json': 1 });
  expect(await cachedModels({ HF_HUB_CACHE: folder })).toEqual({
    folder,
    models: [
      { name: 'org/a/big-00001-of-00002.gguf', bytes: 17 },
      { name: 'org/a/sub/x.Q4_K_M.gguf', bytes: 7 },
      { name: 'org/b-name', bytes: 34 },
    ],
  });
  expect((await cachedModels({ HF_HUB_CACHE: join(folder, 'none') })).models).toEqual([]);
});
