/**
 * `node tools/lighthouse.mjs FOLDER`: rates the first page of the built site, served as `npm run site` does, by the
 * Lighthouse in FOLDER/node_modules and the Chromium of the tests (KV_CHROMIUM): performance and accessibility, on a
 * phone and on a desktop.
 */
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { fail, root, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
const LEAST = 95,
  TURNS = 5;
const [, , folder] = process.argv;
if (folder === undefined) fail('lighthouse: expected the folder that it is installed in, got nothing', 2);
const installed = createRequire(resolve(folder, 'package.json')),
  from = async (require, name) => import(pathToFileURL(require.resolve(name)).href);
const { default: lighthouse, desktopConfig } = await from(installed, 'lighthouse'),
  { launch } = await from(installed, 'chrome-launcher');

const app = join(root, 'apps/docs');
process.chdir(app);
const { serve } = await from(createRequire(join(app, 'package.json')), 'vitepress'),
  { server } = await serve({ root: app, port: { port: 0, host: '127.0.0.1', toString: () => '0' } });
const chromium = await launch({
  chromePath: process.env.KV_CHROMIUM ?? '/usr/bin/chromium',
  chromeFlags: ['--headless=new', '--no-sandbox'],
});
const tooLow = [];
try {
  for (const [form, config] of [
    ['phone', undefined],
    ['desktop', desktopConfig],
  ]) {
    const best = {};
    // the best of a few, since other work on the machine only slows it
    for (let turn = 0; turn < TURNS && !(best.performance >= LEAST); turn++) {
      const { lhr } = await lighthouse(
        `http://127.0.0.1:${server.address().port}/`,
        { port: chromium.port, onlyCategories: ['performance', 'accessibility'], logLevel: 'error' },
        config,
      );
      for (const { id, score } of Object.values(lhr.categories))
        best[id] = Math.max(best[id] ?? 0, Math.round(100 * score));
    }
    console.log(`${form}: performance ${best.performance}, accessibility ${best.accessibility}`);
    for (const [id, score] of Object.entries(best)) if (score < LEAST) tooLow.push(`${id} ${score} on a ${form}`);
  }
} finally {
  chromium.kill();
  server.close();
}
if (tooLow.length > 0) fail(`lighthouse: expected at least ${LEAST}, got ${tooLow.join(', ')}`);
