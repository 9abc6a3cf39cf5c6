import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type * as kv from '@kv/page';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inPlaceOfHub } from './hub.ts';
import { launch, noBrowser, open, SWIFTSHADER } from './site.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url)),
  model = join(root, 'packages/model-embedded'),
  html = readFileSync(join(root, 'examples/page.html'), 'utf8'),
  PROMPT = `The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(12)}The secret code is:`;

declare global {
  interface Window {
    kv: typeof kv;
  }
}

/** kv.min.js in pages without a build: examples/page.html from one folder, and all of it from another origin. */
describe.skipIf(noBrowser !== undefined && process.env.KV_REQUIRE_GPU !== '1')('kv.min.js', () => {
  const [folder, others] = [mkdtempSync(join(tmpdir(), 'kv-page-')), mkdtempSync(join(tmpdir(), 'kv-page-'))],
    servers: Server[] = [];
  let browser: Browser, own: string, elsewhere: string;

  /** Serves a folder as it is, on an origin of its own. */
  const serve = (at: string, headers: Readonly<Record<string, string>> = {}): Promise<string> =>
    new Promise((up) => {
      const server = createServer(({ url = '/' }, response) => {
        const file = join(at, url),
          type = { '.html': 'text/html', '.js': 'text/javascript' }[extname(file)] ?? 'application/octet-stream';
        response.writeHead(existsSync(file) ? 200 : 404, { ...headers, 'content-type': type });
        response.end(existsSync(file) ? readFileSync(file) : '');
      });
      servers.push(server);
      server.listen(0, '127.0.0.1', () => up(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`));
    });

  beforeAll(async () => {
    const vite = join(dirname(createRequire(import.meta.url).resolve('vite/package.json')), 'bin/vite.js');
    execFileSync(process.execPath, [vite, 'build', '--outDir', folder, '--logLevel', 'error'], {
      cwd: join(root, 'packages/page'),
      env: { ...process.env, NODE_ENV: 'production' },
    });
    for (const name of readdirSync(model))
      if (/\.(?:json|safetensors)$/.test(name)) cpSync(join(model, name), join(folder, 'model-embedded', name));
    writeFileSync(join(folder, 'page.html'), html);
    elsewhere = await serve(folder, { 'access-control-allow-origin': '*' }); // as a CDN does
    writeFileSync(join(others, 'page.html'), html.replaceAll("'./", `'${elsewhere}`));
    writeFileSync(
      join(others, 'empty.html'),
      `<!doctype html><link rel="icon" href="data:,"><script type="module">window.kv = await import('${elsewhere}kv.min.js')</script><input type="file" multiple>`,
    );
    own = await serve(others);
    browser = await launch(SWIFTSHADER);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    for (const server of servers) server.close();
    for (const path of [folder, others]) rmSync(path, { recursive: true });
  });

  test.each([
    ['a folder', () => elsewhere],
    ['another origin', () => own],
  ])('examples/page.html answers with kv.min.js and the model from %s', async (_, site) => {
    const context = await browser.newContext(),
      { page, complaints } = await open(context, `${site()}page.html`),
      workers: string[] = [];
    page.on('worker', (worker) => workers.push(worker.url()));
    await page.getByText('kept by streaming').waitFor();
    const [first, , ...lines] = (await page.textContent('pre'))!.trim().split('\n');
    expect(first).toBe('A code in 720 tokens. What each policy answers from a part of them:');
    expect(lines).toHaveLength(5);
    expect(lines[0]).toMatch(/^XK7M9P2Q +64 kept by snapkv\(/);
    expect(lines[4]).toMatch(/^(?!XK7M9P2Q).* 64 kept by streaming$/);
    // a checkpoint need not have a chat template; of files whose size alone is asked for, the rest is not
    expect(complaints.filter((text) => !/net::ERR_ABORTED|status of 404/.test(text))).toEqual([]);
    expect(workers).toEqual([]);
    await context.close();
  });

  test('a page on another origin fetches a model of the hub in a worker, or takes a file, and talks to it on the CPU or on WebGPU', async () => {
    const context = await browser.newContext(),
      files = Object.fromEntries(
        ['config.json', 'tokenizer.json', 'model.safetensors'].map((name) => [name, readFileSync(join(model, name))]),
      ),
      { seen } = await inPlaceOfHub(context, files),
      { page, complaints } = await open(context, `${own}empty.html`);
    await page.waitForFunction(() => 'kv' in window);
    const got = await page.evaluate(async (prompt) => {
      const { findGpuRuntime, generate, gpuRuntime, loadModel, openGpu } = window.kv,
        policy = 'snapkv(window=16,kernel=17,pooling=max) | topK',
        shares: number[] = [],
        licences: (string | undefined)[] = [],
        refuse = (): Promise<never> => Promise.reject(new Error('too large')),
        stopped = await loadModel('org/tiny', { onPlan: refuse }).catch(({ message }: Error) => message),
        onPlan = ({ license }: { readonly license?: string | undefined }): void => void licences.push(license);
      const model = await loadModel('org/tiny', { onPlan, onProgress: ({ done, total }) => shares.push(done / total) }),
        device = await loadModel('org/tiny', { runtime: gpuRuntime(await openGpu()) });
      const { text, report } = await generate(model, { prompt, policy, budget: 48, maxNewTokens: 9, stop: ['.'] }),
        short = { prompt: prompt.slice(0, 20), maxNewTokens: 2 };
      return {
        text: text.trim(),
        kept: report.kept[0]?.[0]?.length,
        engines: [model.engine, device.engine],
        same: (await generate(model, short)).text === (await generate(device, short)).text,
        found: (await findGpuRuntime())?.name ?? 'none', // a software adapter is slower than WebAssembly
        fetched: shares.at(-1),
        ...{ stopped, licences },
        refused: await loadModel('org/none').catch(({ name, message }: Error) => `${name}: ${message}`),
      };
    }, PROMPT);
    expect(got).toEqual({
      ...{
        text: 'XK7M9P2Q',
        kept: 48,
        same: true,
        found: 'none',
        fetched: 1,
        stopped: 'too large',
        licences: ['apache-2.0'],
      },
      engines: [
        expect.stringMatching(/^wasm, .* 1 thread$/) as string,
        expect.stringMatching(/^webgpu, .*SwiftShader/i) as string,
      ],
      refused: expect.stringMatching(/^KvError: org\/none: /) as string,
    });
    expect(seen.filter((path) => path.endsWith('model.safetensors'))).toHaveLength(1);
    expect(complaints.filter((text) => !/status of 401|org.none/.test(text))).toEqual([]);

    await page.setInputFiles(
      'input',
      Object.keys(files).map((name) => join(model, name)),
    );
    const chosen = await page.evaluate(async (prompt) => {
      const { Chat, loadModel } = window.kv,
        model = await loadModel(document.querySelector('input')!.files!);
      const chat = new Chat(model, { policy: 'streaming', budget: 64, maxNewTokens: 9 });
      let streamed = '';
      for await (const { text } of chat.send(prompt)) streamed += text;
      const none = await loadModel([]).catch(({ message }: Error) => message);
      return [streamed === chat.messages.at(-1)?.content && streamed !== '', chat.sequence.progress.length > 64, none];
    }, PROMPT);
    expect(chosen).toEqual([true, true, "loadModel: expected a .gguf file, or a checkpoint's files, got none"]);
    await context.close();
  });
});
