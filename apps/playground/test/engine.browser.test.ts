import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { build } from 'vite';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { embeddedModel } from '../bundle/embedded-model.ts';
import { answered, type Answered } from './engine-page.ts';
import { launch, noBrowser } from './site.ts';

const strict = process.env.KV_REQUIRE_GPU === '1',
  root = new URL('.', import.meta.url).pathname;
const golden = new URL('../../../packages/model-testing/data/goldens/llama', import.meta.url).pathname;

/** The engine of @kv/models in a page: the same module as in Node, on threads where the page is cross-origin isolated. */
describe.skipIf(noBrowser !== undefined && !strict)('the default engine in Chromium', () => {
  let folder: string, browser: Browser;
  const servers: Server[] = [];
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'kv-engine-page-'));
    await build({
      configFile: false,
      root,
      logLevel: 'error',
      plugins: [embeddedModel()],
      resolve: { conditions: ['@kv/source', 'module', 'browser'] },
      build: {
        target: 'es2022',
        outDir: folder,
        lib: { entry: join(root, 'engine-page.ts'), formats: ['es'], fileName: 'page' },
        rolldownOptions: { external: ['webgpu'] },
      },
    });
    browser = await launch();
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    for (const server of servers) server.close();
    rmSync(folder, { recursive: true });
  });

  const serve = (headers: Readonly<Record<string, string>>): Promise<string> =>
    new Promise((up) => {
      const server = createServer(({ url = '/' }, response) => {
        const name = basename(url),
          file = url.startsWith('/llama/') ? join(golden, name) : join(folder, name);
        const [type, body] =
          url === '/'
            ? ['text/html', '<script type="module" src="page.js"></script>']
            : existsSync(file)
              ? [name.endsWith('.js') ? 'text/javascript' : 'application/octet-stream', readFileSync(file)]
              : [undefined, ''];
        response
          .writeHead(type === undefined ? 404 : 200, { ...headers, ...(type && { 'Content-Type': type }) })
          .end(body);
      });
      servers.push(
        server.listen(0, '127.0.0.1', () => {
          const address = server.address();
          up(`http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`);
        }),
      );
    });
  const inPage = async (headers: Readonly<Record<string, string>>, threads: number): Promise<Answered> => {
    const page = await browser.newPage();
    await page.goto(await serve(headers));
    await page.waitForFunction(() => typeof globalThis.answer === 'function');
    const got = await page.evaluate((count) => globalThis.answer(count), threads);
    await page.close();
    return got;
  };

  test.each([
    [
      'isolated, two threads',
      { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' },
      2,
    ],
    ['not isolated, two threads asked for', {}, 2],
  ] as const)(
    '%s: tokens, slots and logits of Node',
    async (_, headers, threads) => {
      const isolated = Object.keys(headers).length > 0,
        [want, got] = [await answered(golden, threads), await inPage(headers, threads)];
      expect(got.isolated).toBe(isolated);
      expect(got.engine).toMatch(isolated ? /^wasm, f32, .*, 2 threads$/ : /^wasm, f32, .*, 1 thread$/);
      expect([got.tokens, got.kept]).toEqual([want.tokens, want.kept]);
      const largest = Math.max(...want.logits.map(Math.abs));
      for (const [i, logit] of want.logits.entries())
        expect(Math.abs(got.logits[i] - logit)).toBeLessThan(1e-5 * largest);
      expect(got.said).toEqual(
        isolated
          ? []
          : [
              'wasm: 2 threads are not available, so one is used: wasm: more than one thread needs a cross-origin isolated page',
            ],
      );
    },
    120_000,
  );
});
