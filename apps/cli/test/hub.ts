import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

/**
 * A hub on the loopback that offers a folder as `repo`, under the MIT licence, and breaks its first `breaks` downloads
 * of the weights half-way.
 */
export async function startHub(
  folder: string,
  breaks = 0,
  repo = 'org/tiny',
): Promise<{ readonly url: string; readonly asked: string[]; close(): Promise<void> }> {
  const commit = 'a'.repeat(40),
    asked: string[] = [];
  let broken = 0;
  const server = createServer(({ url = '', headers: { range } }, response) => {
    asked.push(url);
    const file = url.startsWith(`/${repo}/resolve/${commit}/`) ? url.split('/').at(-1) : undefined;
    if (url.startsWith(`/api/models/${repo}/revision/main`))
      return void response.end(JSON.stringify({ id: repo, sha: commit, tags: ['license:mit'] }));
    if (url.startsWith(`/api/models/${repo}/tree/${commit}`)) {
      return void response.end(
        JSON.stringify(
          readdirSync(folder).map((path) => {
            const bytes = readFileSync(join(folder, path)),
              size = bytes.length,
              sha256 = createHash('sha256').update(bytes).digest('hex');
            return {
              type: 'file',
              path,
              size,
              oid: createHash('sha1').update(`blob ${size}\0`).update(bytes).digest('hex'),
              ...(path.endsWith('.safetensors') && { lfs: { oid: sha256, size, pointerSize: 1 } }),
            };
          }),
        ),
      );
    }
    if (file === undefined) return void response.writeHead(404, { 'x-error-code': 'RepoNotFound' }).end();
    const bytes = readFileSync(join(folder, file)),
      from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0);
    response.writeHead(range === undefined ? 200 : 206, {
      'content-length': bytes.length - from,
      ...(range !== undefined && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` }),
    });
    if (!file.endsWith('.safetensors') || broken++ >= breaks) return void response.end(bytes.subarray(from));
    response.write(bytes.subarray(from, from + Math.floor((bytes.length - from) / 2)), () =>
      setImmediate(() => response.destroy()),
    );
  });
  await new Promise<void>((listening) => void server.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
