import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inPlaceOfHub } from '../../apps/playground/test/hub.ts';
import { launch, noBrowser, open } from '../../apps/playground/test/site.ts';
import { makeFolder } from '../../packages/create-piece/src/template.mjs';
import { serveFolder } from '../lib/page.mjs';
import { root } from '../lib/process.mjs';

const folder = mkdtempSync(join(tmpdir(), 'kv-app-')),
  app = join(folder, 'my-chat'),
  MESSAGE = `The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(12)}The secret code is:`;

/** The page of npm create @kv/app, built by Vite over the built packages; tools/release.mjs --rehearse installs it. */
describe.skipIf(noBrowser !== undefined && process.env.KV_REQUIRE_GPU !== '1')('an app of npm create', () => {
  let browser: Awaited<ReturnType<typeof launch>>, site: Awaited<ReturnType<typeof serveFolder>>;
  beforeAll(async () => {
    const words = { package: 'my-chat', name: 'my-chat' };
    makeFolder(folder, 'my-chat', [join(root, 'packages/create-app/templates')], words);
    for (const name of ['@kv/hub', '@kv/models', 'vite']) {
      const link = join(app, 'node_modules', name);
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(join(root, 'packages/create-app/node_modules', name), link);
    }
    // the one line that names the model, as a person changes it
    const settings = join(app, 'settings.js'),
      changed = readFileSync(settings, 'utf8')
        .replace(/^(export const model = ).*$/m, "$1'org/tiny';")
        .replace(/^(export const budget = ).*$/m, '$1 64;');
    writeFileSync(settings, changed);
    execFileSync(process.execPath, ['node_modules/vite/bin/vite.js', 'build', '--logLevel', 'error'], { cwd: app });
    site = await serveFolder(join(app, 'dist'));
    browser = await launch();
  });
  afterAll(async () => {
    await browser?.close();
    await site?.close();
    rmSync(folder, { recursive: true });
  });

  test('fetches its model when asked, streams an answer and says what it keeps', async () => {
    const context = await browser.newContext(),
      model = join(root, 'packages/model-embedded'),
      names = ['config.json', 'tokenizer.json', 'model.safetensors'];
    await inPlaceOfHub(context, Object.fromEntries(names.map((name) => [name, readFileSync(join(model, name))])));
    const { page, complaints } = await open(context, site.address);
    await page.getByText('org/tiny is not in this browser yet').waitFor();
    await page.getByRole('button', { name: 'Fetch the model' }).click();
    await page.getByText('outstandingSentences keeps 64 tokens').waitFor();
    await page.getByLabel('Message').fill(MESSAGE);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Send' }).waitFor();
    expect((await page.locator('.model').textContent())?.trim()).toMatch(/^XK7M9P2Q/);
    const [, tokens, kept, bytes, whole] =
      /^(\d+) tokens so far, (\d+) kept: (\S+) MB instead of (\S+) MB$/
        .exec((await page.locator('#memory').textContent()) ?? '')
        ?.map(Number) ?? [];
    expect(tokens).toBeGreaterThan(100);
    expect(kept).toBeLessThanOrEqual(64);
    expect(bytes).toBeLessThan(whole!);
    expect(complaints).toEqual([]);
    await page.reload(); // what the browser keeps needs no fetching
    await page.getByText('outstandingSentences keeps 64 tokens').waitFor();
  });
});
