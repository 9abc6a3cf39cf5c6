/**
 * `node tools/look.mjs [PART]`: opens the built site of apps/docs in Chromium, every page whose path contains PART, at
 * desktop and phone width, light and dark. Prints serious findings of axe, pages wider than the window, and the time to
 * the playground's first result.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { browse } from './lib/browse.mjs';
import { install } from './lib/install.mjs';
import { fail, root, showUsage } from './lib/process.mjs';
import { isLeading } from './site/addresses.mjs';

showUsage(import.meta.filename);
const FIRST_RESULT_S = 5;
const dist = join(root, 'apps/docs/dist');
if (!existsSync(join(dist, 'index.html'))) fail("look: expected a built site: 'npm run site -- --build' builds it");
await install('all');
const { address, browser, axe: script, close } = await browse(dist),
  axe = readFileSync(script, 'utf8');

const wrong = [];
/** Pages with findings of axe or of the width check. */
async function look(page, at) {
  await page.evaluate(axe);
  const { serious, over } = await page.evaluate(async () => ({
    serious: (await axe.run({ resultTypes: ['violations'] })).violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].html.slice(0, 160)}`),
    over: document.documentElement.scrollWidth - innerWidth,
  }));
  if (over > 0) serious.push(`${over} pixels wider than the window`);
  for (const what of serious) {
    wrong.push(what);
    console.error(`${at}: ${what}`);
  }
}

const asked = process.argv.slice(2),
  pages = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter(
    (file) =>
      file.endsWith('.html') &&
      (asked.length === 0 || asked.some((part) => file.includes(part))) &&
      !isLeading(readFileSync(join(dist, file), 'utf8')),
  );
const forms = [
  ['light', 1280],
  ['dark', 1280],
  ['light', 390],
  ['dark', 390],
];
for (const [colorScheme, width] of forms) {
  const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 } }),
    page = await context.newPage();
  page.setDefaultTimeout(60_000);
  for (const file of pages) {
    await page.goto(address + file);
    if (file === 'playground/index.html') await page.waitForSelector('body[data-state=done]');
    await look(page, `${file}, ${colorScheme}, ${width} pixels`);
  }
  await context.close();
}

// without a cache; the best of three, since other work on the machine only slows it
const firsts = [];
for (let turn = 0; turn < 3; turn++) {
  const page = await browser.newPage();
  await page.goto(`${address}playground/index.html`);
  await page.waitForSelector('body[data-state=done]');
  firsts.push(await page.evaluate(() => performance.now() / 1000));
  await page.close();
}
const first = Math.min(...firsts);
console.log(
  `${pages.length} pages, ${wrong.length} findings; the playground's first result after ${first.toFixed(1)} s`,
);
await close();
if (first > FIRST_RESULT_S) fail(`look: expected a first result within ${FIRST_RESULT_S} s, got ${first.toFixed(1)} s`);
if (wrong.length > 0) fail(`look: expected nothing serious, got ${wrong.length} findings: see above`);
