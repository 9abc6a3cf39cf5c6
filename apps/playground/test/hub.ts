import { createHash } from 'node:crypto';
import type { BrowserContext } from 'playwright-core';

const COMMIT = 'c0ffee'.padEnd(40, '0');

/**
 * Answers in place of huggingface.co for one public repository, `org/tiny`; `seen` are the paths asked for. The first
 * answer with a large file ends in the middle where `cut` is set.
 */
export async function inPlaceOfHub(
  context: BrowserContext,
  files: Readonly<Record<string, Buffer>>,
  { cut = false, spoilt = false } = {},
): Promise<{ readonly seen: string[] }> {
  const seen: string[] = [];
  let first = cut;
  await context.route('https://huggingface.co/**', async (route) => {
    const { pathname } = new URL(route.request().url()),
      range = /^bytes=(\d+)-$/.exec((await route.request().headerValue('range')) ?? '')?.[1];
    seen.push(range === undefined ? pathname : `${pathname} from ${range}`);
    const headers = {
        'access-control-allow-origin': '*',
        'access-control-expose-headers': 'Content-Range, X-Error-Code',
      },
      json = (value: unknown): Promise<void> =>
        route.fulfill({ headers, contentType: 'application/json', body: JSON.stringify(value) });
    if (!pathname.includes('org/tiny'))
      return route.fulfill({ status: 401, headers: { ...headers, 'x-error-code': 'RepoNotFound' }, body: '{}' });
    if (pathname.includes('/revision/'))
      return json({
        ...{ _id: '1', id: 'org/tiny', modelId: 'org/tiny', sha: COMMIT, private: false, siblings: [] },
        lastModified: '2026-01-01T00:00:00.000Z',
        tags: ['license:apache-2.0'],
      });
    if (pathname.includes('/tree/'))
      return json(
        Object.entries(files).map(([path, bytes]) => {
          const oid = createHash('sha256').update(bytes).digest('hex');
          return /safetensors|gguf/.test(path)
            ? {
                type: 'file',
                path,
                size: bytes.length,
                oid: COMMIT,
                lfs: { oid, size: bytes.length, pointerSize: 130 },
              }
            : {
                ...{ type: 'file', path, size: bytes.length },
                oid: createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex'),
              };
        }),
      );
    const bytes = files[pathname.split('/').at(-1) ?? ''],
      from = Number(range ?? 0),
      to = first && bytes.length > 100_000 ? Math.floor(bytes.length / 2) : bytes.length;
    if (to < bytes.length) first = false;
    const body = Buffer.from(bytes.subarray(from, to));
    if (spoilt) body[0] ^= 1;
    return route.fulfill({
      status: range === undefined ? 200 : 206,
      headers: {
        ...headers,
        ...(range !== undefined && { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` }),
      },
      body,
    });
  });
  return { seen };
}
