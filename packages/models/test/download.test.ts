import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KvError } from '@kv/core';
import { expect, test } from 'vitest';
import { urlSource } from '@kv/checkpoints';
import { loadModel } from '../src/index.ts';

/** Runs with the address of a server that answers this way, then closes its connections. */
async function served<T>(answer: RequestListener, use: (address: string) => Promise<T>): Promise<T> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const failed = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

test('a large file becomes a blob as it comes, and is read in slices', async () => {
  const size = 2 ** 26 + 12_345,
    bytes = new Uint8Array(size).map((_, at) => at % 251);
  const send: RequestListener = (_, response) => void response.writeHead(200, { 'content-length': size }).end(bytes);
  await served(send, async (address) => {
    const source = await urlSource(`${address}/model.gguf`);
    expect(source.size).toBe(size);
    // within a blob, over two of them, and to the end
    for (const [at, length] of [
      [5, 100],
      [2 ** 25 - 50, 2 ** 20],
      [size - 99, 99],
    ]) {
      const found = await source.read(at, length);
      expect(found.buffer.byteLength, 'a slice, not a view of all').toBe(length);
      expect(Buffer.compare(found, bytes.subarray(at, at + length))).toBe(0);
    }
    await expect(source.read(size - 10, 11)).rejects.toThrow(`expected 11 bytes at ${size - 10}`);
  });
});

test.each<[string, RequestListener, RegExp]>([
  ['says nothing', () => {}, /download failed: no data for 0\.2 s$/],
  [
    'stops in the middle',
    (_, response) => void response.writeHead(200, { 'content-length': 1000 }).write('x'.repeat(10)),
    /download failed: no data for 0\.2 s$/,
  ],
  [
    'sends for ever',
    (_, response) => {
      const more = (): void => {
        while (response.write('x'.repeat(65_536)));
        response.once('drain', more);
      };
      response.writeHead(200);
      more();
    },
    /at most 100000 bytes, got more \(maxBytes lifts this\)$/,
  ],
  [
    'promises too much',
    (_, response) => void response.writeHead(200, { 'content-length': 1e12 }).write('x'),
    /at most 100000 bytes, got 1000000000000 \(/,
  ],
  ['refuses', (_, response) => void response.writeHead(503).end(), /download failed: HTTP status 503$/],
  ['hangs up', (_, response) => void response.destroy(), /download failed: (?:ECONNRESET|UND_ERR_SOCKET)$/],
])('a server that %s is one sentence', async (_, answer, message) => {
  await served(answer, async (address) => {
    const timeoutMs = message.source.includes('no data for') ? 200 : undefined;
    const error = await failed(urlSource(`${address}/model.safetensors`, { timeoutMs, maxBytes: 100_000 }));
    expect(KvError.is(error)).toBe(true);
    expect((error as KvError).message).toMatch(/^http:\S+: (?:download failed: |expected a file of )/);
    expect((error as KvError).message).toMatch(message);
  });
});

test('configurations are never longer than 128 MiB', async () => {
  const huge: RequestListener = (_, response) => void response.writeHead(200, { 'content-length': 2 ** 30 }).write('x');
  await served(huge, async (address) => {
    await expect(loadModel(address)).rejects.toThrow(/config\.json: expected a file of at most 134217728 bytes/);
  });
});

test.each(['config.json', 'model.safetensors'])('an abort while %s does not come ends the loading', async (silent) => {
  const { reference } = await import('@kv/model-testing/reference');
  const { readFileSync, existsSync } = await import('node:fs');
  const abort = new AbortController();
  const reason = new Error('enough');
  const answer: RequestListener = ({ url }, response) => {
    const name = url?.split('/').at(-1) ?? '';
    if (name === silent) return void setTimeout(() => abort.abort(reason), 20);
    const path = reference(`data/goldens/llama`).concat('/', name);
    if (existsSync(path)) response.end(readFileSync(path));
    else response.writeHead(404).end();
  };
  await served(answer, async (address) => {
    expect(await failed(loadModel(address, { signal: abort.signal }))).toBe(reason);
  });
});

test('an abort ends the reading of a file too', async () => {
  const { reference } = await import('@kv/model-testing/reference');
  await expect(
    loadModel(reference('data/goldens/llama'), { signal: AbortSignal.abort(new Error('no')) }),
  ).rejects.toThrow(/^no$/);
});
