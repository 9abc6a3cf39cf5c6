import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { serious } from './accessibility.ts';
import { open, type Site } from './site.ts';

const ended = (page: Page): Promise<unknown> => page.waitForSelector('body[data-state=done]');
const { version } = JSON.parse(
  readFileSync(new URL('../../../packages/core/package.json', import.meta.url), 'utf8'),
) as { readonly version: string };

/** Tests the machine page. @param shared the built page and the browser that all tests share */
export function testMachine(shared: () => { readonly site: Site; readonly browser: Browser }): void {
  test('machine: a table of this machine, stopped, marked where the page was hidden, copied as Markdown', async () => {
    const { site, browser } = shared(),
      context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
    context.setDefaultTimeout(100_000);
    const { page, complaints } = await open(context, `${site.url}machine.html#lengths=4000&repeats=1&device=cpu`);
    await page.click('#measure');
    await page.waitForSelector('body[data-state=measuring]');
    await page.click('#stop');
    await ended(page);
    expect(await page.textContent('#notes')).toContain('Stopped before the last row.');

    await page.fill('#lengths', '64, x');
    await page.click('#measure');
    expect(await page.textContent('#wrong-plan')).toContain("got '64, x'");
    await page.fill('#lengths', '96, 48');
    await page.selectOption('#device', 'auto');
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { value: true }); // a browser without windows hides none
    });
    await page.click('#measure');
    await page.waitForSelector('#table tr:nth-child(4)');
    await ended(page);
    const rows = await page.$$eval('#table tbody tr', (all) =>
      all.map((row) => [...row.children].map(({ textContent }) => textContent)),
    );
    expect(rows.map(([device, tokens, cache]) => [device, tokens, cache])).toEqual([
      ['CPU *', '48', 'full'],
      ['CPU *', '48', 'policy'],
      ['CPU *', '96', 'full'],
      ['CPU *', '96', 'policy'],
    ]);
    expect(rows.map((row) => row[3])).toEqual(['48', '16', '96', '24']);
    for (const row of rows) for (const cell of row.slice(4, 6)) expect(cell).toMatch(/^[1-9][\d,]*(\.\d+)?$/);

    await page.click('#copy');
    await page.getByText('Copied.').waitFor();
    const text = await page.evaluate(() => navigator.clipboard.readText());
    for (const fact of [
      /^- browser: .*Chrom\w* \d+\.[\d.]+ on \w+/m,
      /^- adapter: .*(swiftshader|none)/im,
      /^- cores: \d+; the CPU engine/m,
      `- kv: ${version}\n`,
      /^- model: embedded .*, context of 4,096 tokens$/m,
      /^- policy: snapkv\(.* at 25%$/m,
      /^- cache stored as: (f32|q8) \(CPU\)/m,
      `- date: ${new Date().toISOString().slice(0, 10)}`,
      `\n| ${rows[0].join(' | ')} |\n`,
      'the median of 1 run ',
      'hidden',
    ])
      expect(text).toMatch(fact);
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await serious(page), colorScheme).toEqual([]);
    }
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    expect(complaints).toEqual([]);
    await context.close();
  }, 120_000);
}
