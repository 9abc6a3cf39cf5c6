import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { expect, test } from 'vitest';
import { serve } from './serve.ts';

const executablePath = process.env.KV_CHROMIUM ?? '/usr/bin/chromium',
  missing = !existsSync(executablePath);

test('there is a Chromium where it is required', () => {
  if (process.env.KV_REQUIRE_GPU === '1')
    expect(missing, `no Chromium at ${executablePath}: set KV_CHROMIUM`).toBe(false);
});

test.skipIf(missing)(
  'the page says what is loaded and answers, under its own policy of content, without a complaint of the browser',
  { timeout: 120_000 },
  async () => {
    const on = await serve(),
      browser = await chromium.launch({ executablePath });
    try {
      const page = await browser.newPage(),
        complaints: string[] = [];
      page.on('console', (message) => complaints.push(message.text()));
      page.on('pageerror', (error) => complaints.push(String(error)));
      // greedy: what is drawn may end before its first word
      await page.route('**/v1/**', (route) => {
        const asked = route.request().postDataJSON() as object | null;
        return route.continue(asked ? { postData: JSON.stringify({ ...asked, temperature: 0 }) } : {});
      });
      const loaded = await page.goto(on.url);
      expect(loaded?.headers()['content-security-policy']).toContain("default-src 'none'");
      await page.waitForSelector('#state dd', { state: 'attached' });
      const state = await page.textContent('#state');
      expect(state).toContain('embedded');
      expect(state).toMatch(/Weights[\d.]+ MB/);
      const send = async (): Promise<string> => {
        await page.click('button[type=submit]');
        await page.waitForSelector('#stop[disabled]', { timeout: 60_000 });
        return (await page.textContent('#usage')) ?? '';
      };
      await page.fill('#prompt', 'The river was wide.');
      expect(await send()).toMatch(/^\d+ \+ \d+ tokens, \d+ slots kept, 0 dropped$/);
      expect((await page.textContent('#talk .assistant'))?.length).toBeGreaterThan(0);
      // the next message goes on from the answer
      const [next] = await Promise.all([
        page.waitForRequest('**/v1/**'),
        page.fill('#prompt', 'It was deep.').then(() => page.press('#prompt', 'Enter')),
      ]);
      expect((next.postDataJSON() as { messages: { role: string }[] }).messages.map(({ role }) => role)).toEqual([
        'user',
        'assistant',
        'user',
      ]);
      await page.waitForSelector('#stop[disabled]', { timeout: 60_000 });
      expect(await page.locator('#talk p').count()).toBe(4);
      // a refusal is a sentence on the page; markup in an answer would be text
      await page.click('summary');
      await page.fill('#policy', 'no-such-policy');
      await page.fill('#prompt', 'And <b>wide</b>.');
      expect(await send()).toContain('no-such-policy');
      expect([await page.locator('#talk p').count(), await page.inputValue('#prompt')]).toEqual([
        4,
        'And <b>wide</b>.',
      ]);
      expect(complaints.filter((text) => !text.includes('400 (Bad Request)'))).toEqual([]);
    } finally {
      await browser.close();
      await on.server.close(0);
    }
  },
);
