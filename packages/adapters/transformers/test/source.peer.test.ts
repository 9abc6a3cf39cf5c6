import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AutoModelForCausalLM, AutoTokenizer, env } from '@huggingface/transformers';
import { policy } from '@kv/policies';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { withPolicy, type GraphSource } from '../src/index.ts';
import { opener } from '../src/files.ts';
import { exported, madeFolder } from './exported.ts';
import { generated, TEXT, type Prompted } from './generated.ts';

/** A hub of one model, `kv/embedded`, whose weights are in a file next to its graph. */
let folder: string, server: Server, asked: string[];
const cacheDir = mkdtempSync(join(tmpdir(), 'kv-hub-cache-')),
  before = { remoteHost: env.remoteHost, cacheDir: env.cacheDir, useFSCache: env.useFSCache },
  under = policy('snapkv', { window: 8 });
beforeAll(async () => {
  ({ folder } = await exported({ inlineBytes: 1000 }));
  server = createServer(({ url = '' }, response) => {
    asked.push(url);
    const [, file] = /^\/kv\/embedded\/resolve\/(?:main|v1)\/(.*)$/.exec(url) ?? [],
      path = file && join(folder, file);
    if (path && existsSync(path)) response.end(readFileSync(path));
    else response.writeHead(404).end();
  });
  await new Promise<void>((up) => void server.listen(0, '127.0.0.1', up));
  const address = server.address();
  env.remoteHost = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`;
  env.cacheDir = cacheDir;
}, 120_000);
beforeEach(() => {
  asked = [];
  env.useFSCache = true;
});
afterAll(() => {
  Object.assign(env, before);
  server.close();
  rmSync(cacheDir, { recursive: true });
});

const load = (revision?: string): ReturnType<typeof AutoModelForCausalLM.from_pretrained> =>
  AutoModelForCausalLM.from_pretrained('kv/embedded', {
    dtype: 'fp32',
    use_external_data_format: true,
    ...(revision && { revision }),
  });
async function written(model: Awaited<ReturnType<typeof load>>, source: GraphSource): Promise<readonly number[]> {
  const kept = await withPolicy(model, { policy: under, budget: 40, block: 24, source }),
    tokenizer = await AutoTokenizer.from_pretrained(folder);
  return generated(kept, tokenizer(TEXT) as Prompted, { max_new_tokens: 8 });
}

describe('a source by its name on the hub, with weights in files next to the graph', () => {
  let want: readonly number[];
  beforeAll(async () => {
    const local = await AutoModelForCausalLM.from_pretrained(folder, { dtype: 'fp32', use_external_data_format: true });
    want = await written(local, folder);
  });
  const graphs = (): string[] => asked.filter((url) => /\.onnx(?:_data.*)?$/.test(url));

  test('is read from the cache that transformers.js filled, without another request', async () => {
    const model = await load();
    expect(graphs().length).toBeGreaterThan(1);
    expect(readdirSync(join(cacheDir, 'kv/embedded/onnx')).length).toBeGreaterThan(1);
    asked = [];
    expect(await written(model, 'kv/embedded')).toEqual(want);
    expect(graphs()).toEqual([]);
  });

  test('of a revision, which has a cache of its own', async () => {
    const model = await load('v1');
    asked = [];
    expect(await written(model, { model: 'kv/embedded', revision: 'v1' })).toEqual(want);
    expect(graphs()).toEqual([]);
  });

  test('without a cache it is fetched, of the revision that is asked for', async () => {
    const model = await load(); // transformers.js itself needs its cache in Node
    env.useFSCache = false;
    asked = [];
    expect(await written(model, { model: 'kv/embedded', revision: 'v1' })).toEqual(want);
    expect(graphs().length).toBeGreaterThan(1);
    for (const url of graphs()) expect(url).toContain('/resolve/v1/onnx/');
  });

  test('what is nowhere is one sentence', async () => {
    const model = await load(),
      kept = (source: GraphSource): Promise<unknown> => withPolicy(model, { policy: under, budget: 40, source });
    await expect(kept('kv/other')).rejects.toThrow(
      'source: expected onnx/model.onnx of kv/other in its folder, in a cache or at http://127.0.0.1',
    );
    asked = [];
    await expect(kept({ model: 'kv/other', local_files_only: true })).rejects.toThrow('got none there');
    expect(asked).toEqual([]);
    await expect(kept(new Uint8Array(readFileSync(join(folder, 'onnx/model.onnx'))))).rejects.toThrow(
      "source: expected a folder or a name, since the graph's tensors lie in model.onnx_data, got bytes",
    );
  });
});

test('a file that cannot be read is named with the reason', async () => {
  const own = madeFolder(),
    read = opener(own, { subfolder: '', local_files_only: true });
  mkdirSync(join(own, 'folder.onnx'));
  await expect(read('folder.onnx')).rejects.toThrow(
    `source: expected a file that can be read as ${join(own, 'folder.onnx')}, got EISDIR`,
  );
  await expect(read('other.onnx')).rejects.toThrow('got none there');
});
