import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launch, noBrowser, open, serve, type Site } from './site.ts';

const example = fileURLToPath(new URL('../../../examples/browser-page', import.meta.url));

describe.skipIf(noBrowser !== undefined && process.env.KV_REQUIRE_GPU !== '1')('examples/browser-page', () => {
  let site: Site, browser: Browser;
  beforeAll(async () => {
    [site, browser] = [await serve(example), await launch()];
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await site?.close();
    site?.remove();
  });

  test('answers in a browser, again under another policy, and says what is wrong with one', async () => {
    const { page, complaints } = await open(await browser.newContext(), site.url);
    const said = async (text: string | RegExp): Promise<void> =>
      page.getByRole('status').filter({ hasText: text }).waitFor();
    await said('XK7M9P2Q, with 48 slots a head kept by snapkv(window=16,kernel=17,pooling=max) ∘ topK');
    await page.getByLabel('Policy').fill('streaming');
    await page.getByLabel('Budget').fill('32');
    await page.getByRole('button').click();
    await said(/^(?!XK7M9P2Q).*, with 32 slots a head kept by streaming ∘ topK$/);
    await page.getByLabel('Policy').fill('streeming');
    await page.getByRole('button').click();
    await said(/streeming/);
    // of a file whose size alone is asked for, the rest is not
    expect(complaints.filter((text) => !text.endsWith('net::ERR_ABORTED'))).toEqual([]);
  });
});
