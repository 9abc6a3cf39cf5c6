import { openAsBlob, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { generate, loadModel, type FileBlob, type LoadOptions } from '../src/index.ts';
import { fixture } from '@kv/model-testing/fixture';

const ids = Array.from({ length: 12 }, (_, i) => (i * 7) % 60);
const answer = async (name: string, options?: LoadOptions): Promise<readonly number[]> => {
  const model = await loadModel(name, options),
    { tokens } = await generate(model, { ids, maxNewTokens: 6 });
  model.destroy();
  return tokens;
};

test('files that a person chose are read in slices, none of them whole, and answer as those on disk', async () => {
  const folder = fixture('llama'),
    blobs = new Map<string, FileBlob>();
  let [longest, read] = [0, 0];
  for (const name of readdirSync(folder)) {
    const blob = await openAsBlob(`${folder}/${name}`);
    blobs.set(name, {
      size: blob.size,
      slice: (from, to) => {
        if (/gguf|safetensors/.test(name)) longest = Math.max(longest, (to - from) / blob.size);
        if (/safetensors/.test(name)) read += (to - from) / blob.size;
        return blob.slice(from, to);
      },
    });
  }
  const { gguf, rest } = {
    gguf: new Map([['model.gguf', blobs.get('model.gguf') as FileBlob]]),
    rest: new Map([...blobs].filter(([name]) => !name.endsWith('.gguf'))),
  };
  expect(await answer('a model', { files: rest })).toEqual(await answer(folder));
  expect(longest).toBeLessThan(0.5);
  expect(read).toBeCloseTo(1, 9); // each byte once
  expect(await answer('model.gguf', { files: gguf })).toEqual(await answer(`${folder}/model.gguf`));
});

test('a file that is not among them, or no longer there, is said in one sentence', async () => {
  await expect(loadModel('org/name', { files: new Map([['a.txt', new Blob()]]) })).rejects.toThrow(
    'org/name: expected a file config.json, got a.txt',
  );
  await expect(loadModel('x.gguf', { files: new Map([['x.gguf', new Blob(['GGUX and more'])]]) })).rejects.toThrow(
    'x.gguf: expected a GGUF file, got one that begins with 0x47475558',
  );
  const gone: FileBlob = {
    size: 100,
    slice: () => ({ arrayBuffer: () => Promise.reject(new Error('the file changed')) }),
  };
  await expect(loadModel('x.gguf', { files: new Map([['x.gguf', gone]]) })).rejects.toThrow(
    'x.gguf: cannot be read (the file changed)',
  );
});
