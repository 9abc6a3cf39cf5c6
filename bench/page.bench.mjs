/**
 * The CPU engine in a page of Chromium against the same engine in Node, in turns: tokens a second of a prompt and of
 * its answer, and the page's speed as a share of Node's. SmolLM2-135M if no model is given.
 *
 *   npm run bench page        or, once built:   node bench/page.bench.mjs --model FILE.gguf --tokens 1024 --turns 5
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { heldOutBook } from '@kv/tasks';
import { build } from 'tsup';
import { browse } from '../tools/lib/browse.mjs';
import { commandLine } from './lib/command-line.mjs';
import { open } from './lib/page-run.mjs';
import { spread } from './lib/spread.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url)),
  {
    tokens: lengths,
    turns,
    decode,
    threads,
    model = spawnSync(process.execPath, [here('../tools/smollm2.mjs')], { encoding: 'utf8' }).stdout.trim(),
  } = commandLine({ model: undefined, tokens: [1024], turns: 5, decode: 32, threads: availableParallelism() });

const folder = mkdtempSync(join(tmpdir(), 'kv-page-'));
await build({
  entry: { page: here('lib/page-run.mjs') },
  format: 'esm',
  platform: 'browser',
  target: 'es2022',
  outDir: folder,
  splitting: false,
  silent: true,
  config: false,
  noExternal: [/./],
  outExtension: () => ({ js: '.js' }),
});
writeFileSync(join(folder, 'index.html'), '<script type="module" src="page.js"></script>');
symlinkSync(resolve(model), join(folder, basename(model)));
// threads can share memory only if the page is cross-origin isolated
const { address, browser, close } = await browse(folder, {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
});
try {
  const page = await browser.newPage();
  await page.goto(address);
  await page.waitForFunction(() => typeof globalThis.run === 'function');
  const node = await open(model, threads),
    engine = await page.evaluate(
      ([url, n]) => globalThis.open(url, n),
      [new URL(basename(model), address).href, threads],
    ),
    book = node.encode(await heldOutBook());
  const inPage = (ids) => page.evaluate(([list, n]) => globalThis.run(list, n), [ids, decode]);
  console.log(
    `\n${basename(model)}, ${cpus()[0]?.model}; tokens a second, median (smallest-largest) of ${turns} turns\n\n- Node ${process.version}: ${node.engine}\n- Chromium ${browser.version()}: ${engine}\n`,
  );
  console.log(
    '|  | prefill, page | Node | ratio | decode, page | Node | ratio |\n| --- | --- | --- | --- | --- | --- | --- |',
  );
  for (const length of lengths) {
    const ids = [...book.slice(0, length)],
      pairs = [];
    for (const run of [inPage, (x) => node.run(x, decode)]) await run(ids.slice(0, 64));
    for (let turn = 0; turn < turns; turn++) pairs.push([await inPage(ids), await node.run(ids, decode)]);
    const cells = ['prefill', 'decode'].flatMap((what) => [
      spread(
        pairs.map(([a]) => a[what]),
        1,
      ),
      spread(
        pairs.map(([, b]) => b[what]),
        1,
      ),
      spread(
        pairs.map(([a, b]) => a[what] / b[what]),
        2,
      ),
    ]);
    console.log(`| ${length} tokens | ${cells.join(' | ')} |`);
  }
} finally {
  await close();
  rmSync(folder, { recursive: true });
}
process.exit(0); // the engine's threads keep waiting for work
