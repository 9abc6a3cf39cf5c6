import { createRequire } from 'node:module';
import { join } from 'node:path';
import { serveFolder } from './page.mjs';
import { root } from './process.mjs';

const own = createRequire(join(root, 'apps/playground/package.json'));

/** The Chromium that is opened. */
export const chromium = process.env.KV_CHROMIUM ?? '/usr/bin/chromium';

/** Serves a folder on the loopback interface and opens a Chromium. */
export async function browse(folder, headers = {}) {
  const browser = await own('playwright-core').chromium.launch({ executablePath: chromium }),
    { address, close } = await serveFolder(folder, headers);
  return {
    address,
    browser,
    axe: own.resolve('axe-core/axe.min.js'),
    async close() {
      await browser.close();
      await close();
    },
  };
}
