import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './process.mjs';

const own = createRequire(join(root, 'apps/playground/package.json'));

/**
 * Serves a folder on the loopback interface, as `vite preview` does, and opens a Chromium: /usr/bin/chromium or
 * KV_CHROMIUM.
 */
export async function browse(folder, headers = {}) {
  const { preview } = await import(pathToFileURL(own.resolve('vite')).href),
    browser = await own('playwright-core').chromium.launch({
      executablePath: process.env.KV_CHROMIUM ?? '/usr/bin/chromium',
    });
  const server = await preview({
    root: folder,
    configFile: false,
    logLevel: 'error',
    appType: 'mpa', // a missing file is missing
    build: { outDir: folder },
    preview: { host: '127.0.0.1', port: 0, headers },
  });
  return {
    address: `http://127.0.0.1:${server.httpServer.address().port}/`,
    browser,
    axe: own.resolve('axe-core/axe.min.js'),
    async close() {
      await browser.close();
      await server.close();
    },
  };
}
