import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { preview } from 'vite';

const playground = new URL('..', import.meta.url).pathname;
const executablePath = process.env.KV_CHROMIUM ?? '/usr/bin/chromium';

/** Why the page cannot be tested here, if so; in CI (`KV_REQUIRE_GPU=1`) that is a failure. */
export const noBrowser: string | undefined = existsSync(executablePath)
  ? undefined
  : `no Chromium at ${executablePath}: set KV_CHROMIUM`;

export interface Site {
  readonly url: string;
  readonly folder: string;
  /** Ends the server; the files go with `remove`. */
  close(): Promise<void>;
  remove(): void;
}

/** Builds a page as it is published and serves it with its headers. @param root its folder; the playground unless given */
export async function serve(root: string = playground): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'kv-playground-')),
    vite = join(dirname(createRequire(import.meta.url).resolve('vite/package.json')), 'bin/vite.js');
  execFileSync(process.execPath, [vite, 'build', '--outDir', folder, '--emptyOutDir', '--logLevel', 'error'], {
    cwd: root,
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const server = await preview({
    root,
    logLevel: 'error',
    build: { outDir: folder },
    preview: { host: '127.0.0.1', port: 0 },
  });
  const address = server.httpServer.address();
  if (address === null || typeof address === 'string') throw new Error(`expected a port, got ${String(address)}`);
  return {
    url: `http://127.0.0.1:${address.port}/`,
    folder,
    close: () => server.close(),
    remove: () => rmSync(folder, { recursive: true }),
  };
}

/**
 * WebGPU on SwiftShader, the software adapter that comes with Chromium; without these flags headless Chromium has no
 * adapter.
 */
export const SWIFTSHADER: readonly string[] = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'];

export const launch = (args: readonly string[] = []): Promise<Browser> =>
  chromium.launch({ executablePath, args: [...args] });

/** Opens a page that records every error of the browser. */
export async function open(
  context: BrowserContext,
  url: string,
): Promise<{ readonly page: Page; readonly complaints: readonly string[] }> {
  const page = await context.newPage(),
    complaints: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('requestfailed', (request) => complaints.push(`${request.url()}: ${request.failure()?.errorText}`));
  await page.goto(url);
  return { page, complaints };
}

/** Waits until a run has ended. */
export const ended = (page: Page): Promise<unknown> =>
  page.waitForSelector('body[data-state=done]', { timeout: 100_000 });

/** Opens what lies under "More". */
export const more = (page: Page): Promise<void> =>
  page.$eval('#more', (details) => {
    (details as HTMLDetailsElement).open = true;
  });

/** Returns what both sides show: policies, answers, and the number of rows that hold each token of the text. */
export async function sides(
  page: Page,
): Promise<{ readonly policy: string; readonly answer: string; readonly shares: readonly number[] }[]> {
  return page.$$eval('.side', (all) =>
    all.map((side) => ({
      policy: side.querySelector('.composition')?.textContent ?? '',
      answer: side.querySelector('.answer strong')?.textContent ?? '',
      shares: [...side.querySelectorAll<HTMLElement>('.text span')]
        .filter(({ dataset }) => dataset.share !== '')
        .map(({ dataset }) => Number(dataset.share)),
    })),
  );
}
