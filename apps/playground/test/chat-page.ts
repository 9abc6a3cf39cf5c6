import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { writeEmbeddedGguf } from '@kv/model-testing/embedded-gguf';
import type { Browser, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { serious } from './accessibility.ts';
import { inPlaceOfHub } from './hub.ts';
import { open, type Site } from './site.ts';

const TEMPLATE =
  "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";

/** The files of the embedded model, with a chat template. */
function chatFiles(): Readonly<Record<string, Buffer>> {
  const folder = dirname(createRequire(import.meta.url).resolve('@kv/model-embedded/config.json')),
    read = (name: string): Buffer => readFileSync(join(folder, name)),
    tokenizer = { ...(JSON.parse(String(read('tokenizer_config.json'))) as object), chat_template: TEMPLATE };
  return {
    'config.json': read('config.json'),
    'tokenizer.json': read('tokenizer.json'),
    'tokenizer_config.json': Buffer.from(JSON.stringify(tokenizer)),
    'model.safetensors': read('model.safetensors'),
  };
}

/** The figures of both conversations: keys and values, their peak, slots, tokens. */
const figures = async (page: Page): Promise<{ readonly left: string[]; readonly right: string[] }> => {
  const of = (side: string): Promise<string[]> =>
    page.$$eval(`.on-${side} .figures dd`, (all) => all.map(({ textContent }) => textContent));
  return { left: await of('left'), right: await of('right') };
};
const ready = (page: Page): Promise<unknown> => page.waitForSelector('body[data-state=ready]');

/** Tests the chat page. @param shared the built page and the browser that all tests share */
export function testChat(shared: () => { readonly site: Site; readonly browser: Browser }): void {
  test('chat: the right conversation ends at its window, the left one goes on in constant memory', async () => {
    const { site, browser } = shared(),
      context = await browser.newContext({ serviceWorkers: 'block' }), // requests are answered here
      { seen } = await inPlaceOfHub(context, chatFiles());
    context.setDefaultTimeout(100_000);
    const choice = 'hub=org%2Ftiny&policy=outstandingSentences&budget=25%25&window=256&new=24&device=cpu',
      { page, complaints } = await open(context, `${site.url}chat.html#${choice}`);

    // size and licence first, then the model, each when a button is pressed
    await page.getByText('org/tiny is not in this browser').waitFor();
    expect([seen, await page.isDisabled('#send'), await serious(page)]).toEqual([[], true, []]);
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await serious(page)).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.click('#fetch');
    await page.getByText('org/tiny: 3 MB, licence apache-2.0.').waitFor();
    expect(seen.filter((path) => path.includes('/resolve/'))).toEqual([]);
    await page.click('text=Download 3 MB');
    await ready(page);
    expect(await page.isHidden('#status')).toBe(true);
    expect(await page.textContent('#explained')).toMatch(/^The window is 256 of the 4,096 tokens/);
    // what the engine offers, and its choice
    expect(await page.$$eval('#cache option', (all) => all.map(({ textContent }) => textContent))).toEqual([
      ...['f32, 4.1 KiB a token', 'f16, 2.1 KiB a token', 'q8, 1.2 KiB a token'],
      ...['k8v4, 960 B a token', 'q4, 704 B a token'],
    ]);
    expect(await page.inputValue('#cache')).toBe('q8');

    // a policy that is none is refused in its place, and nothing is sent
    await page.selectOption('#policy', '');
    await page.fill('#policy-text', 'streeming');
    await page.fill('#message', 'The secret code is: XK7M9P2Q.');
    await page.press('#message', 'Enter');
    expect(await page.textContent('#wrong-policy')).toContain("got 'streeming'");
    expect(await page.$$('.question')).toHaveLength(0);
    await page.fill('#policy-text', 'outstandingSentences');
    await page.press('#message', 'Enter');
    await page.waitForSelector('.on-right .answer');
    await ready(page);

    const history = [await figures(page)];
    while ((await page.$('.on-right .stopped')) === null) {
      await page.click('#suggested button >> nth=0');
      await page.waitForSelector(`.on-left .question:nth-of-type(${2 * history.length + 1})`);
      await ready(page);
      history.push(await figures(page));
      expect(history.length).toBeLessThan(9);
    }
    expect(await page.textContent('.on-right .state')).toMatch(
      /^The window of 256 tokens .*: this conversation ends here, and the left one goes on\.$/,
    );
    const full = history.at(-1)!; // there is one
    await page.click('#suggested button >> nth=3');
    await page.waitForSelector(`.on-left .question:nth-of-type(${2 * history.length + 1})`);
    await ready(page);
    const after = await figures(page),
      kept = [...history, after]
        .filter(({ left }) => left[2] === '64 of 64')
        .map(({ left }) => Number.parseFloat(left[0]));
    expect(kept.length).toBeGreaterThan(2);
    // once slots are moved, each has a rotation, and its key is stored in 16 bits instead of 8
    expect(Math.max(...kept)).toBeLessThan(1.5 * kept[0]);
    expect(Number.parseFloat(full.right[0])).toBeGreaterThan(2 * kept[0]);
    expect(after.right).toEqual(full.right);
    expect(Number(after.left[3])).toBeGreaterThan(Number(full.left[3]));

    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await serious(page), colorScheme).toEqual([]);
    }
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);

    // after Clear a long answer is stopped, and a model without a template says what it is
    await page.click('#clear');
    await page.waitForSelector('#clear:disabled');
    await page.click('summary');
    await page.fill('#answer', '1024');
    await page.click('#suggested button >> nth=1');
    await page.waitForSelector('.on-left .answer:not(:text("…"))');
    await page.click('#stop');
    await ready(page);
    expect(await page.textContent('.on-left .state')).toBe('Stopped.');
    const folder = mkdtempSync(join(tmpdir(), 'kv-chat-page-')),
      gguf = join(folder, 'base.gguf');
    writeEmbeddedGguf(gguf);
    await page.check('[name=model][value=file]');
    await page.setInputFiles('#file', gguf);
    await page.getByText('base.gguf has no chat template, as base models have none').waitFor();
    rmSync(folder, { recursive: true });
    expect(complaints.filter((text) => !text.startsWith('Service Worker registration blocked'))).toEqual([]);
    await context.close();
  }, 120_000);
}
