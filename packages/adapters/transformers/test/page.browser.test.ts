import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { inTurn } from '@kv/model-testing/in-turn';
import { chromium, type Browser, type Page } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { answered, type Answered } from './browser-page.ts';
import { exported } from './exported.ts';
import { TEXT } from './generated.ts';

const executablePath = process.env.KV_CHROMIUM ?? '/usr/bin/chromium',
  root = new URL('.', import.meta.url).pathname,
  runtime = createRequire(createRequire(import.meta.url).resolve('@huggingface/transformers')).resolve(
    'onnxruntime-web',
  );

/** What a page asks for: the page itself, the model's files, and ONNX Runtime's. */
async function serve(page: string, model: string): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer(({ url = '/' }, response) => {
    const name = basename(url),
      file = url.startsWith('/model/')
        ? join(model, url.slice('/model/'.length))
        : join(url.startsWith('/ort/') ? dirname(runtime) : page, name),
      type = /js$/.test(name) ? 'text/javascript' : name.endsWith('.wasm') ? 'application/wasm' : 'application/json';
    if (url === '/')
      response.writeHead(200, { 'Content-Type': 'text/html' }).end('<script type="module" src="page.js"></script>');
    else if (existsSync(file)) response.writeHead(200, { 'Content-Type': type }).end(readFileSync(file));
    else response.writeHead(404).end();
  });
  await new Promise<void>((up) => void server.listen(0, '127.0.0.1', up));
  const address = server.address();
  return { url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}/`, server };
}

/** WebGPU on SwiftShader comes with Chromium. */
describe.skipIf(!existsSync(executablePath) && process.env.KV_REQUIRE_GPU !== '1')('in Chromium', () => {
  let page: string, model: string, browser: Browser, url: string, server: Server;
  beforeAll(async () => {
    page = mkdtempSync(join(tmpdir(), 'kv-adapter-page-'));
    ({ folder: model } = await exported());
    await build({
      configFile: false,
      root,
      logLevel: 'error',
      resolve: { conditions: ['@kv/source', 'module', 'browser'] },
      build: {
        target: 'es2022',
        outDir: page,
        lib: { entry: join(root, 'browser-page.ts'), formats: ['es'], fileName: 'page' },
      },
    });
    ({ url, server } = await serve(page, model));
    browser = await chromium.launch({
      executablePath,
      args: ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'],
    });
  }, 600_000);
  afterAll(async () => {
    await browser?.close();
    server?.close();
    rmSync(page, { recursive: true });
  });

  describe.each(['wasm', 'webgpu'] as const)('%s', (device) => {
    const complaints: string[] = [];
    let tab: Page;
    beforeAll(async () => {
      tab = await browser.newPage();
      tab.on('pageerror', (error) => complaints.push(String(error)));
      await tab.goto(url);
      await tab.waitForFunction(() => typeof globalThis.underPolicy === 'function');
    }, 120_000);
    afterAll(() => tab?.close());

    const cases = [
      ['keydiff', undefined],
      ['snapkv(window=8)', 24],
    ] as const;
    test.each(device === 'webgpu' ? inTurn(cases, 2) : cases)(
      '%s, blocks of %s: the tokens and slots of Node',
      async (policy, block) => {
        const asked = { text: TEXT, policy, ...(block !== undefined && { block }) },
          want = await answered(model, { ...asked, device: 'cpu' }),
          got: Answered = await tab.evaluate((all) => globalThis.underPolicy(all), { ...asked, device });
        expect(complaints).toEqual([]);
        const sets = got.kept.flat().map((row) => new Set(row)),
          differing = want.kept.flat().reduce((n, row, i) => n + row.filter((p) => !sets[i].has(p)).length, 0);
        // Of a whole prompt ONNX Runtime's kernel for WebGPU gives other roundings, from the second layer's keys on.
        expect(differing / want.kept.flat(2).length).toBeLessThan(
          device === 'webgpu' && block === undefined ? 0.1 : 0.01,
        );
        expect([got.alone, got.tokens, got.next, got.events]).toEqual([
          want.alone,
          want.tokens,
          want.next,
          want.events,
        ]);
        expect(got.places).toEqual(device === 'webgpu' ? ['gpu-buffer', 'cpu'] : ['cpu', 'cpu']);
      },
      600_000,
    );
  });
});
