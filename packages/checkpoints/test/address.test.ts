import { existsSync, readFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { reference } from '@kv/model-testing/reference';
import { expect, test } from 'vitest';
import { openCheckpoint, sidecarPath } from '../src/index.ts';
import { sidecarFile, sidecars } from '../src/load/sidecar.ts';
import { download, isAbsent } from '../src/read/download.ts';

/** Runs with the address of a server that answers this way. */
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
const folder = reference('data/goldens/llama');
/** Answers with the files of a model; others are refused, as a store without a list does. */
const answers =
  (asked: string[], refusal = 404, head = true): RequestListener =>
  ({ method, url }, response) => {
    const { pathname, search } = new URL(url ?? '', 'http://here'),
      path = join(folder, pathname.split('/').at(-1) ?? '');
    asked.push(pathname + search);
    if (method === 'HEAD' && !head) response.writeHead(405).end();
    else if (existsSync(path)) response.end(method === 'HEAD' ? '' : readFileSync(path));
    else response.writeHead(refusal).end();
  };

test('a folder and a file on the web keep their query', async () => {
  const asked: string[] = [];
  await served(answers(asked), async (address) => {
    const { config, close } = await openCheckpoint(`${address}/org/model?token=a/b`);
    expect(config.layers).toBe(4);
    await close();
    expect(asked.every((path) => /^\/org\/model\/[\w.]+\?token=a\/b$/.test(path))).toBe(true);
    await expect(openCheckpoint(`${address}/org/m.gguf?download=true`)).rejects.toThrow(
      `${address}/org/m.gguf?download=true: expected a file, got none`,
    );
  });
  expect(sidecarPath('https://h/org/m.gguf?download=true', 'x')).toBe('https://h/org/m.gguf.x?download=true');
  expect(sidecarPath('https://h/org/m/?a=b', 'x')).toBe('https://h/org/m/x?a=b');
  await expect(openCheckpoint('http://')).rejects.toThrow('http://: expected an address such as');
});

test.each([
  [403, true],
  [404, false],
  [405, true],
  [410, true],
])('files that need not be there may be refused with %s, and HEAD too', async (status, head) => {
  await served(answers([], status, head), async (address) => {
    const { chatTemplate, close } = await openCheckpoint(address);
    expect(chatTemplate()).toBe(undefined);
    await close();
    expect(await isAbsent(`${address}/config.json`)).toBe(false);
    expect(await sidecarFile(address, 'none')).toBe(undefined);
  });
});

test('a wait that is longer than a timer can be is not one of a millisecond', async () => {
  const late: RequestListener = (_, response) => void setTimeout(() => response.end('ab'), 100);
  for (const timeoutMs of [3e9, Infinity])
    expect((await served(late, (address) => download(address, { timeoutMs }))).length).toBe(2);
});

test.each(['file://host/model', 'file:///a%2Fb', 'file://host/m.gguf'])(
  '%s is refused in one sentence',
  async (url) => {
    await expect(openCheckpoint(url)).rejects.toThrow(
      ': expected a file URL such as file:///models/mine, got another (',
    );
  },
);

test('a file next to a model that could not be read is read again', async () => {
  let reads = 0;
  const read = sidecars(
    'model',
    () => undefined,
    async () => {
      if (++reads === 1) throw new Error('no answer');
      return Uint8Array.of(1);
    },
  );
  await expect(read('x')).rejects.toThrow('no answer');
  expect([await read('x'), await read('x'), reads]).toEqual([Uint8Array.of(1), Uint8Array.of(1), 2]);
});
