import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A repository as the hub holds it. */
export interface Repo {
  readonly commit: string;
  readonly files: Readonly<Record<string, Buffer>>;
  /** Tags, such as `license:mit`. */
  readonly tags?: readonly unknown[];
  /** Token that it requires. */
  readonly gated?: string;
  /** Listing sent instead of the real tree. */
  readonly tree?: readonly unknown[];
}

/** A received request. */
interface Seen {
  readonly on: 'hub' | 'cdn';
  readonly method: string;
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

/** Answers instead of the server; returns whether it did. */
export type Fault = (request: Seen, response: ServerResponse, body: Body | undefined) => boolean | Promise<boolean>;
/** A file and the first requested byte. */
interface Body {
  readonly bytes: Buffer;
  readonly from: number;
}

export interface FakeHub {
  readonly url: string;
  readonly seen: Seen[];
  /** Faults tried on every request, in order. */
  readonly faults: Fault[];
  readonly repos: Record<string, Repo>;
  close(): Promise<void>;
}

const PAGE = 2;
const isLarge = (path: string): boolean => /\.(safetensors|gguf|bin)$/.test(path);
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
export const etagOf = (path: string, bytes: Buffer): string =>
  isLarge(path) ? sha256(bytes) : createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');

/** Starts the hub on one port of the loopback and its CDN on another; `faults` breaks them. */
export async function startHub(repos: Record<string, Repo>): Promise<FakeHub> {
  const seen: Seen[] = [],
    faults: Fault[] = [];
  const record = (
    on: Seen['on'],
    { method = '', url = '', headers: { range, authorization } }: IncomingMessage,
  ): Seen => {
    const request = { on, method, path: decodeURIComponent(url), range, authorization };
    seen.push(request);
    return request;
  };
  const spoilt = async (request: Seen, response: ServerResponse, body: Body | undefined): Promise<boolean> => {
    for (const fault of [...faults]) if (await fault(request, response, body)) return true;
    return false;
  };
  const cdn = createServer(
    (request, response) =>
      void (async () => {
        const asked = record('cdn', request);
        const bytes = Object.values(repos)
          .flatMap(({ files }) => Object.values(files))
          .find((file) => `/${sha256(file)}` === asked.path)!;
        const body = { bytes, from: Number(/^bytes=(\d+)-$/.exec(asked.range ?? '')?.[1] ?? 0) };
        if (!(await spoilt(asked, response, body))) sendBytes(request, response, body, {});
      })(),
  );
  const cdnUrl = await listen(cdn);
  const hub = createServer(
    (request, response) =>
      void (async () => {
        const asked = record('hub', request),
          url = new URL(request.url!, 'http://hub');
        const path = decodeURIComponent(url.pathname);
        const [, api, resolved] =
          /^\/api\/models\/([^/]+\/[^/]+)\//.exec(path) ?? /^(\/)([^/]+\/[^/]+)\/resolve\//.exec(path) ?? [];
        const name = api === '/' ? resolved : (api ?? ''),
          repo = repos[name];
        const file = api === '/' ? /\/resolve\/[^/]+\/(.*)$/.exec(path)?.[1] : undefined;
        const bytes = file === undefined ? undefined : repo?.files[file];
        if (
          await spoilt(asked, response, bytes && file !== undefined && !isLarge(file) ? { bytes, from: 0 } : undefined)
        )
          return;
        if (!repo) return refuse(response, 401, 'RepoNotFound');
        const revision = /\/(?:revision|tree|resolve)\/([^/]+)/.exec(url.pathname)![1];
        if (!['main', 'v1', 'refs/pr/1', repo.commit].includes(decodeURIComponent(revision)))
          return refuse(response, 404, 'RevisionNotFound');
        if (file === undefined)
          return path.includes('/tree/')
            ? sendTree(response, url, repo, `http://${request.headers.host}`)
            : sendInfo(response, name, repo);
        if (repo.gated !== undefined && asked.authorization !== `Bearer ${repo.gated}`)
          return refuse(response, asked.authorization ? 403 : 401, 'GatedRepo');
        if (!bytes) return refuse(response, 404, 'EntryNotFound');
        const headers = {
          'x-repo-commit': repo.commit,
          ...(isLarge(file)
            ? {
                'x-linked-etag': `"${sha256(bytes)}"`,
                'x-linked-size': String(bytes.length),
                etag: `"${etagOf('', Buffer.from(file))}"`,
              }
            : { etag: `"${etagOf(file, bytes)}"` }),
        };
        if (isLarge(file))
          return void response
            .writeHead(302, { ...headers, location: `${cdnUrl}/${sha256(bytes)}`, 'content-length': '0' })
            .end();
        sendBytes(request, response, { bytes, from: 0 }, headers);
      })(),
  );
  const url = await listen(hub);
  const stop = (server: Server): Promise<void> =>
    new Promise((closed) => {
      server.close(() => closed());
      server.closeAllConnections();
    });
  return {
    url,
    seen,
    faults,
    repos,
    close: async () => {
      await stop(hub);
      await stop(cdn);
    },
  };
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((listening) => void server.listen(0, '127.0.0.1', listening));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response
    .writeHead(status, { 'x-error-code': code, 'content-type': 'application/json' })
    .end(JSON.stringify({ error: code }));
}

function sendInfo(response: ServerResponse, name: string, { commit, files, tags }: Repo): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(
    JSON.stringify({
      _id: '1',
      id: name,
      modelId: name,
      sha: commit,
      private: false,
      ...(tags && { tags }),
      lastModified: '2026-01-01T00:00:00.000Z',
      siblings: Object.keys(files).map((rfilename) => ({ rfilename })),
    }),
  );
}

/** Sends pages of two files; the real hub has pages of a thousand. */
function sendTree(response: ServerResponse, url: URL, { files, tree }: Repo, origin: string): void {
  const entries =
    tree ??
    Object.entries(files).map(([path, bytes]) => ({
      type: 'file',
      path,
      size: bytes.length,
      oid: etagOf('', bytes),
      ...(isLarge(path) && { lfs: { oid: sha256(bytes), size: bytes.length, pointerSize: 130 } }),
    }));
  const from = Number(url.searchParams.get('cursor') ?? 0);
  const next = new URL(url.pathname + url.search, origin);
  next.searchParams.set('cursor', String(from + PAGE));
  response
    .writeHead(200, {
      'content-type': 'application/json',
      ...(from + PAGE < entries.length && { link: `<${next.href}>; rel="next"` }),
    })
    .end(JSON.stringify(entries.slice(from, from + PAGE)));
}

function sendBytes(
  { method, headers: { range } }: IncomingMessage,
  response: ServerResponse,
  { bytes, from }: Body,
  headers: Record<string, string>,
): void {
  if (range !== undefined && from >= bytes.length) return void response.writeHead(416).end();
  response
    .writeHead(range === undefined ? 200 : 206, { ...headers, ...rangeHeaders(range, { bytes, from }) })
    .end(method === 'HEAD' ? undefined : bytes.subarray(from));
}

/** Returns the headers of a correct response. */
export const rangeHeaders = (range: string | undefined, { bytes, from }: Body): Record<string, string> => ({
  'content-length': String(bytes.length - from),
  ...(range !== undefined && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` }),
});
