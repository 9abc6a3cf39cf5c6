/**
 * `node tools/look.mjs`: the built site of apps/docs in Chromium, every page at desk and phone width in light and
 * dark: what axe finds serious, what is wider than the window, and how soon the playground has its first result.
 */
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { extname, join, normalize } from 'node:path';
import { fail, root } from './lib/process.mjs';

const FIRST_RESULT_S = 5;
const dist = join(root, 'apps/docs/dist'),
  own = createRequire(join(root, 'apps/playground/package.json'));
if (!existsSync(join(dist, 'index.html'))) fail("look: expected a built site: 'npm run site -- --build' builds it");
const { chromium } = own('playwright-core'),
  axe = readFileSync(own.resolve('axe-core/axe.min.js'), 'utf8');

const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const server = createServer(({ url }, response) => {
  const path = normalize(decodeURIComponent(new URL(url, 'http://x').pathname)),
    file = join(dist, path.endsWith('/') ? `${path}index.html` : path);
  if (!file.startsWith(dist) || !existsSync(file) || statSync(file).isDirectory()) return response.writeHead(404).end();
  response.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' });
  return createReadStream(file).pipe(response);
});
await new Promise((up) => server.listen(0, '127.0.0.1', up));
const site = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: process.env.KV_CHROMIUM ?? '/usr/bin/chromium' });

const wrong = [];
/** Where axe or the width of a page has something to say. */
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
    (file) => file.endsWith('.html') && (asked.length === 0 || asked.some((part) => file.includes(part))),
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
    await page.goto(`${site}/${file}`);
    if (file.startsWith('playground')) await page.waitForSelector('body[data-state=done]');
    await look(page, `${file}, ${colorScheme}, ${width} pixels`);
  }
  await context.close();
}

// without a cache, three times: other work on the machine only slows it
const firsts = [];
for (let turn = 0; turn < 3; turn++) {
  const page = await browser.newPage();
  await page.goto(`${site}/playground/index.html`);
  await page.waitForSelector('body[data-state=done]');
  firsts.push(await page.evaluate(() => performance.now() / 1000));
  await page.close();
}
const first = Math.min(...firsts);
console.log(
  `${pages.length} pages, ${wrong.length} findings; the playground's first result after ${first.toFixed(1)} s`,
);
await browser.close();
server.close();
if (first > FIRST_RESULT_S) fail(`look: expected a first result within ${FIRST_RESULT_S} s, got ${first.toFixed(1)} s`);
if (wrong.length > 0) fail(`look: expected nothing serious, got ${wrong.length} findings: see above`);
