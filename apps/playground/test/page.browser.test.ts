import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { writeEmbeddedGguf } from '@kv/model-testing/embedded-gguf';
import { inTurn } from '@kv/model-testing/in-turn';
import { generate, loadModel } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { heldOutBook, needle, NEEDLE_STOP, sentencesOf } from '@kv/tasks';
import type { Browser, BrowserContext } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { serious } from './accessibility.ts';
import { testChat } from './chat-page.ts';
import { inPlaceOfHub } from './hub.ts';
import { testMachine } from './machine-page.ts';
import { ended, launch, more, noBrowser, open, serve, sides, SWIFTSHADER, type Site } from './site.ts';

const strict = process.env.KV_REQUIRE_GPU === '1';
if (noBrowser !== undefined && !strict) console.warn(`The playground's page is not tried: ${noBrowser}.`);

const EXAMPLE = { form: 'number', tokens: 96, depth: 30, seed: 1 } as const;
const SHORT = 'form=number&tokens=96&depth=30&seed=1&budget=50%25&new=9';

/** What Node's CPU answers to the example: its text, and by how many rows each position is held. */
async function onNode(
  policy: string,
): Promise<{ readonly text: string; readonly value: string; readonly counts: readonly number[] }> {
  const model = await loadModel('embedded'),
    { documentIds, questionIds, value } = needle({
      encode: model.tokenizer.encode,
      sentences: sentencesOf(await heldOutBook()),
      ...EXAMPLE,
      depth: EXAMPLE.depth / 100,
    });
  const ids = [...documentIds, ...questionIds],
    { text, report } = await generate(model, {
      ids,
      policy: parsePolicy(policy),
      budget: '50%',
      maxNewTokens: 9,
      stop: NEEDLE_STOP,
    });
  const counts = ids.map((_, position) => report.kept.flat().filter((row) => row.includes(position)).length);
  model.destroy();
  return { text: text.trim(), value, counts };
}

describe.skipIf(noBrowser !== undefined && !strict)('the page', () => {
  let site: Site, browser: Browser, context: BrowserContext;
  beforeAll(async () => {
    [site, browser] = await Promise.all([serve(), launch(SWIFTSHADER)]);
    context = await browser.newContext();
    context.setDefaultTimeout(100_000); // a software adapter on busy cores
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await site?.close();
    site?.remove();
  }, 60_000);

  test('what is served makes no code of text, and says so', async () => {
    const scripts = readdirSync(site.folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.js'))
      .map((file) => readFileSync(join(site.folder, file), 'utf8'));
    // three pages and what two or three of them share, worker, what chooses a policy and what it shares with these, what lists a repository, the engine on ONNX Runtime, service worker
    expect(scripts).toHaveLength(15);
    expect(scripts.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(2_035_000); // WebAssembly is within them
    expect(
      readdirSync(site.folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.wasm')),
    ).toEqual([]);
    for (const script of scripts) expect(script).not.toMatch(/\beval\s*\(|\bFunction\s*\(\s*[`'"]/);
    const answer = await fetch(site.url),
      inPage = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(await answer.text())?.[1] ?? '';
    for (const policy of [answer.headers.get('content-security-policy') ?? '', inPage.replaceAll('&#39;', "'")]) {
      expect(policy).toContain("default-src 'none'; script-src 'self' 'wasm-unsafe-eval';");
      expect(policy).toContain("connect-src 'self' https://huggingface.co https://*.huggingface.co https://*.hf.co;");
      expect(policy.replace(/connect-src[^;]*;/, '')).not.toMatch(/'unsafe-|\*|data:|blob:/);
    }
    expect((await fetch(`${site.url}assets/nothing.js`)).status).toBe(404);
  });

  test('answers on WebGPU in the worker as Node does on the CPU; two policies keep different slots', async ({
    skip,
  }) => {
    const { page, complaints } = await open(
      context,
      `${site.url}#${SHORT}&a=full&b=${encodeURIComponent('streaming(sinks=2)')}&device=webgpu`,
    );
    const [full, streaming] = [await onNode('full'), await onNode('streaming(sinks=2)')];
    await page.waitForSelector('#device[data-device]');
    const device = (await page.textContent('#device')) ?? '';
    if (!strict && (await page.getAttribute('#device', 'data-device')) === 'cpu') {
      console.warn(`The playground is not tried on WebGPU, since Chromium gives no adapter: ${device}`);
      skip();
    }
    expect(device).toMatch(/^Runs on WebGPU: .*swiftshader/i);
    await ended(page);
    const [left, right] = await sides(page);
    expect(full.text).toBe(full.value);
    expect([left.answer, right.answer]).toEqual([full.text, streaming.text]);
    expect([left.policy, right.policy]).toEqual(['full', 'streaming(sinks=2) ∘ topK']);
    expect(left.shares.slice(0, EXAMPLE.tokens)).toEqual(full.counts.map((count) => count / 16));
    expect(right.shares.slice(0, EXAMPLE.tokens)).toEqual(streaming.counts.map((count) => count / 16));
    expect(right.shares).not.toEqual(left.shares);
    expect(await page.textContent('#overlap')).toMatch(
      /^In both caches: \d+ slots \(\d+ %\); only A: [1-9]\d*; only B: \d+\.$/,
    );
    expect(complaints).toEqual([]);
    await page.close();
  }, 240_000);

  test('its policy is in force in page and worker', async () => {
    const { page } = await open(context, `${site.url}#${SHORT}&device=cpu`);
    await ended(page);
    // inside a timeout, since what a debugger evaluates itself is exempt
    const attempt = (): Promise<string> =>
      new Promise((said) => {
        setTimeout(() => {
          try {
            said(String(new Function('return 1')()));
          } catch (error) {
            said((error as Error).name);
          }
        });
      });
    expect(await page.evaluate(attempt)).toBe('EvalError');
    expect(await page.workers()[0].evaluate(attempt)).toBe('EvalError');
    expect(
      await page.evaluate(() => {
        try {
          document.body.innerHTML = '<b>x</b>';
          return 'written';
        } catch (error) {
          return (error as Error).name;
        }
      }),
    ).toBe('TypeError');
    await page.close();
  });

  test('a link restores the choice, and what came out of it', async () => {
    const { page } = await open(context, `${site.url}#${SHORT}&device=cpu`);
    await ended(page);
    await page.selectOption('#preset-0', 'tova'); // runs at once
    await page.waitForFunction(() => document.querySelector('.composition')?.textContent === 'tova ∘ topK');
    await more(page);
    await page.fill('#policy-1', 'knorm ∘ topK');
    await page.fill('[name=budget]', '40');
    await page.check('[name=late]');
    await page.click('#run');
    await ended(page);
    const values = (): Promise<unknown> =>
      page.$$eval('#choice input:not([type=radio]), #choice select, #choice textarea', (all) =>
        all.map((field) => [
          field.id || field.getAttribute('name'),
          (field as HTMLInputElement).value,
          (field as HTMLInputElement).checked,
        ]),
      );
    const [before, said, link] = [await values(), await sides(page), page.url()];
    expect(said.map(({ policy }) => policy)).toEqual(['tova ∘ topK', 'knorm ∘ topK']);
    await page.goto('about:blank');
    await page.goto(link);
    await ended(page);
    expect(await values()).toEqual(before);
    expect(await sides(page)).toEqual(said);
    expect(page.url()).toBe(link);
    await page.close();
  });

  test('a policy that is none says why, and is not run; one that cannot run fails alone', async () => {
    const { page } = await open(context, `${site.url}#${SHORT}&device=cpu&a=snapkw`);
    expect(await page.textContent('#wrong-0')).toMatch(
      /^policy: expected the name of a method or piece \(did you mean snapkv.*got 'snapkw'$/s,
    );
    expect(await page.textContent('#status')).toBe('Not run: a field above says why.');
    await page.fill('#policy-0', 'snapkv(window=64)');
    expect(await page.textContent('#wrong-0')).toBe('');
    await page.fill('[name=budget]', '48');
    await page.keyboard.press('Enter');
    await ended(page);
    expect(await page.textContent('.side:first-child .answer')).toBe(
      "budget: 48 slots are fewer than 'snapkv ∘ topK' forces in every head: expected a budget of at least 64, as snapkv(window=64,kernel=5) forces them",
    );
    expect((await sides(page))[1].answer).not.toBe('');
    await page.close();
  });

  test('a keyboard is enough', async () => {
    const { page } = await open(context, `${site.url}#${SHORT}&device=cpu&a=full&b=streaming`);
    await ended(page);
    const focus = async (selector: string): Promise<void> => {
      for (let i = 0; i < 40; i++) {
        if (await page.evaluate((wanted) => document.activeElement?.matches(wanted), selector)) return;
        await page.keyboard.press('Tab');
      }
      throw new Error(
        `expected Tab to reach ${selector}, got no further than ${await page.evaluate(() => document.activeElement?.outerHTML)}`,
      );
    };
    await focus('#more > summary');
    await page.keyboard.press('Enter');
    await focus('#policy-1');
    await page.keyboard.press('Control+A');
    await page.keyboard.type('random');
    await page.keyboard.press('Enter');
    await ended(page);
    expect((await sides(page))[1].policy).toBe('random ∘ topK');
    await focus('canvas');
    for (const key of ['Home', 'ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowDown', 'ArrowDown'])
      await page.keyboard.press(key);
    expect(await page.getAttribute('canvas >> nth=0', 'aria-valuetext')).toMatch(
      /^Token 2 “.*”, layer 1, KV head 1: kept; 16 of 16 rows keep it$/s,
    );
    expect(await page.textContent('#readout-1')).toMatch(
      /^Token 2 “.*”, layer 1, KV head 1: (kept|dropped); \d+ of 16 rows keep it$/s,
    );
    await page.keyboard.press('Enter');
    await page.waitForSelector('.why details');
    await focus('.why summary');
    await page.keyboard.press('Enter');
    await page.getByText('Layer 7, KV head 1: ').waitFor();
    await page.keyboard.press('Escape');
    expect(await page.isVisible('.why')).toBe(false);
    await focus('#step');
    await page.keyboard.press('Home');
    expect(await page.textContent('#step-value')).toMatch(/^1 of \d+$/);
    await page.close();
  });

  test('opens with a result, compares four policies, says why a token left, and draws what is kept; axe finds nothing serious, in light and dark', async () => {
    const own = await browser.newContext({ acceptDownloads: true });
    own.setDefaultTimeout(100_000);
    const { page, complaints } = await open(own, `${site.url}#${SHORT}&device=cpu`);
    await ended(page);
    expect((await sides(page)).map(({ answer }) => answer !== '')).toEqual([true, true]);
    await more(page);
    await page.click('#add');
    await page.click('#add');
    await page.fill('#policy-2', 'full');
    await page.fill('#policy-3', 'h2o');
    await page.click('#run');
    await ended(page);
    const said = await sides(page);
    expect(said.map(({ policy }) => policy)).toEqual([
      'streaming ∘ topK',
      'snapkv(window=16,kernel=17,pooling=max) ∘ caote ∘ topK',
      'full',
      'h2o ∘ topK',
    ]);
    expect((await page.textContent('#overlap'))?.match(/\d+ %/g)).toHaveLength(6);
    expect(page.url()).toMatch(/&c=full&d=h2o&/);
    // a token that streaming drops everywhere, and one that it forces
    const gone = said[0].shares.indexOf(0);
    await page.click(`.side >> nth=0 >> [data-position="${gone}"]`);
    await page.waitForFunction(() => document.querySelectorAll('.why details').length === 3);
    const told = await page.$$eval('.why section', (all) => all.map(({ textContent }) => textContent));
    expect(told[0]).toMatch(
      /^A: left 16 of 16 KV heads, stays in 0\.Layer 0, KV head 0: left after the prompt: score \S+ is number \d+ of \d+ unforced slots, with room for \d+; the lowest score that stayed is /,
    );
    expect(told[2]).toBe('C: nothing was evicted under this policy.');
    await page.focus('canvas >> nth=0');
    for (const key of ['Home', 'Enter']) await page.keyboard.press(key);
    await page.getByText('streaming forces it').first().waitFor();
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await serious(page), colorScheme).toEqual([]);
    }
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('#save')]);
    expect(download.suggestedFilename()).toBe('kept.svg');
    const svg = readFileSync(await download.path(), 'utf8');
    for (const title of ['A: streaming', 'B: snapkv(', 'C: full', 'D: h2o']) expect(svg).toContain(`>${title}`);
    await page.click('.field >> nth=0 >> .away');
    expect(await page.inputValue('#policy-0')).toMatch(/^snapkv/);
    expect(complaints).toEqual([]);
    await own.close();
  }, 120_000);

  describe('with a model of a person', () => {
    const folder = mkdtempSync(join(tmpdir(), 'kv-page-')),
      model = dirname(createRequire(import.meta.url).resolve('@kv/model-embedded/config.json'));
    const files = Object.fromEntries(
      ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'].map((name) => [
        name,
        readFileSync(join(model, name)),
      ]),
    );
    afterAll(() => rmSync(folder, { recursive: true }));
    const own = async (): Promise<BrowserContext> => {
      const made = await browser.newContext({ serviceWorkers: 'block' }); // requests are answered here
      made.setDefaultTimeout(100_000);
      return made;
    };

    test('a GGUF file of the disk answers as the embedded model does; what is none is refused in one sentence', async () => {
      const [gguf, text] = [join(folder, 'mine.gguf'), join(folder, 'other.gguf')];
      writeEmbeddedGguf(gguf);
      writeFileSync(text, 'GGUF, but no model');
      const at = await own(),
        { page } = await open(at, `${site.url}#${SHORT}&device=cpu&a=full&b=streaming`);
      await ended(page);
      const before = await sides(page);
      await more(page);
      await page.check('[name=model][value=file]');
      await page.setInputFiles('#file', text);
      await ended(page);
      await page.getByText('other.gguf: expected GGUF version 2 or 3').waitFor();
      await page.setInputFiles('#file', gguf);
      await page.waitForSelector('body[data-state=done] #device[data-device=cpu]');
      expect((await sides(page))[0]).toEqual(before[0]);
      // a link cannot hold a file: it says which one to choose
      const link = page.url();
      await page.goto('about:blank');
      await page.goto(link);
      expect(await page.textContent('#wrong-model')).toBe(
        'model: expected a file (mine.gguf again, since a link cannot hold it), got none',
      );
      await at.close();
    });

    test('a model of the hub comes when a person says so, goes on where it stopped, and is kept by the browser', async () => {
      const at = await own(),
        { seen } = await inPlaceOfHub(at, files, { cut: true }),
        link = `${site.url}#${SHORT}&device=cpu&a=full&b=streaming&hub=org%2Ftiny`;
      const { page } = await open(at, link);
      await ended(page);
      expect(await page.textContent('#status')).toBe(
        'org/tiny: is not in this browser yet: press Run to download it from huggingface.co',
      );
      expect(seen).toEqual([]);
      await page.click('#run');
      await page.waitForSelector('body[data-state=done] #device[data-device=cpu]');
      const { text } = await onNode('full');
      expect((await sides(page))[0].answer).toBe(text);
      expect(seen.at(-1)).toBe(
        `/org/tiny/resolve/${'c0ffee'.padEnd(40, '0')}/model.safetensors from ${Math.floor(files['model.safetensors'].length / 2)}`,
      );
      const asked = seen.length;
      await page.goto('about:blank');
      await page.goto(link);
      await page.waitForSelector('body[data-state=done] #device[data-device=cpu]');
      expect((await sides(page))[0].answer).toBe(text);
      expect(seen).toHaveLength(asked);
      await more(page);
      await page.click('#forget');
      await page.getByText('deleted from this browser').waitFor();
      await page.reload();
      await ended(page);
      expect(await page.textContent('#status')).toContain('press Run to download');
      await more(page);
      await page.fill('#hub', 'org/none');
      await page.click('#run');
      await page
        .getByText('org/none: expected a repository on https://huggingface.co, got none of this name')
        .waitFor();
      await at.close();
    }, 120_000);

    test('bytes that are not those of the repository are not kept', async () => {
      const at = await own();
      await inPlaceOfHub(at, files, { spoilt: true });
      const { page } = await open(at, `${site.url}#${SHORT}&device=cpu&hub=org%2Ftiny`);
      await ended(page);
      await page.click('#run');
      await page.getByText(/config\.json: expected bytes with the checksum [0-9a-f]{40}, got others/).waitFor();
      await at.close();
    });
  });

  testChat(() => ({ site, browser }));
  testMachine(() => ({ site, browser }));

  test('fits a phone', async () => {
    const { page } = await open(context, `${site.url}#${SHORT}&device=cpu&c=h2o`);
    await page.setViewportSize({ width: 360, height: 740 });
    await ended(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    expect(
      Math.max(
        ...(await page.$$eval('canvas, button, input, select, textarea, .text', (all) =>
          all.map((one) => one.getBoundingClientRect().right),
        )),
      ),
    ).toBeLessThanOrEqual(360);
    // cells of 3 to 5 pixels, 22 from the left, 5 from above
    await page.hover('canvas >> nth=1', { position: { x: 23, y: 10 } });
    for (const side of [0, 1])
      expect(await page.textContent(`#readout-${side}`)).toMatch(
        /^Token 0 “.*”, layer 0, KV head 1: (kept|dropped); \d+ of 16 rows keep it$/s,
      );
    await page.close();
  });

  test.each(
    inTurn(
      [
        [1280, 900],
        [390, 844],
      ] as const,
      2,
    ),
  )(
    'in a window of %d x %d the first screen shows texts, maps and answers, and a click its reason near by',
    async (width, height) => {
      const own = await browser.newContext({ viewport: { width, height } }),
        { page } = await open(own, site.url);
      await ended(page);
      /** The boxes of all elements that match, within what shows them: the window, or what they scroll in. */
      const boxes = (selector: string): Promise<readonly DOMRect[]> =>
        page.$$eval(selector, (all) => all.map((one) => one.getBoundingClientRect().toJSON() as DOMRect));
      const within = ({ left, top, right, bottom }: DOMRect, box: Omit<DOMRect, 'toJSON' | 'x' | 'y'>): boolean =>
        left >= box.left - 1 && top >= box.top - 1 && right <= box.right + 1 && bottom <= box.bottom + 1;
      const window = { left: 0, top: 0, right: width, bottom: height, width, height };
      expect(await page.$$eval('.answer', (all) => all.map(({ textContent }) => textContent))).toEqual([
        expect.stringMatching(/ is wrong$/),
        expect.stringMatching(/^\w{8} is right$/),
      ]);
      for (const selector of ['.answer', 'canvas', '.text', '.controls', '.caption']) {
        const found = await boxes(selector);
        expect(found.length, selector).toBeGreaterThan(selector === '.controls' ? 0 : 1);
        for (const box of found) expect([selector, within(box, window), box]).toEqual([selector, true, box]);
      }
      // what scrolls shows the whole map, and of the text the fact
      for (const [inner, outer] of [
        ['canvas', '.map'],
        ['.side .value', '.text'],
      ])
        for (const side of [1, 2]) {
          const [around] = await boxes(`.side:nth-child(${side}) ${outer}`);
          for (const box of await boxes(`.side:nth-child(${side}) ${inner}`))
            expect([inner, within(box, around), box]).toEqual([inner, true, box]);
        }
      expect(await page.isVisible('#status')).toBe(false);

      for (const side of [0, 1])
        for (const [selector, position] of [
          ['canvas', { x: 60, y: 30 }],
          ['.text .value', { x: 3, y: 8 }],
        ] as const) {
          const target = page.locator(`.side >> nth=${side} >> ${selector} >> nth=-1`);
          await target.click({ position });
          await page.waitForFunction(() => document.querySelectorAll('.why details').length === 2);
          const [why] = await boxes('.why'),
            { x, y } = (await target.boundingBox())!,
            [clickedX, clickedY] = [x + position.x, y + position.y];
          expect(within(why, window)).toBe(true);
          expect(clickedX).toBeGreaterThan(why.left);
          expect(clickedX).toBeLessThan(why.right);
          const apart = Math.max(why.top - clickedY, clickedY - why.bottom); // and what was clicked stays in sight
          expect(apart).toBeGreaterThan(0);
          expect(apart).toBeLessThan(40);
          await page.keyboard.press('Escape');
          expect(await page.isVisible('.why')).toBe(false);
        }
      expect(await page.evaluate(() => scrollY)).toBe(0);
      await own.close();
    },
  );

  test("a text of one's own is one click away: a short one is answered on both sides, a fact is repeated", async () => {
    const { page } = await open(context, `${site.url}#tokens=256&device=cpu`);
    await ended(page);
    const answers = async (text: string): Promise<readonly string[]> => {
      await page.click('#write');
      await page.keyboard.type(text.slice(0, 1)); // in place of what was there
      await page.fill('#text', text);
      await page.click('#run');
      await ended(page);
      expect(await page.$$('.answer.failed')).toEqual([]);
      return (await sides(page)).map(({ answer }) => answer);
    };
    for (const answer of await answers('What is the capital of France?')) expect(answer).toMatch(/\w{2}/);
    const walk = 'The boys walked on in silence. '.repeat(5);
    const [lost, found] = await answers(`${walk}The Paris code is: XK7M9P2Q. ${walk}The Paris code is: \n`);
    expect(lost).not.toMatch(/^XK7M9P2Q/);
    expect(found).toMatch(/^XK7M9P2Q/);
    expect(await page.isVisible('.verdict')).toBe(false);
    await page.fill('#text', walk.repeat(8));
    await page.click('#choose');
    await ended(page);
    const [, policy = 'none'] =
      /[Tt]he best policy is (.+) with 25 % of the slots: /.exec((await page.textContent('#chosen')) ?? '') ?? [];
    expect(await page.inputValue('#policy-0')).toBe(policy);
    // the maps show the run before, and give reasons for it
    expect(await page.textContent('#status')).toBe('Below is the run before this change: press Run.');
    await page.click('.side >> nth=0 >> [data-position="1"]');
    await page.waitForFunction(() => document.querySelectorAll('.why details').length === 2);
    await page.keyboard.press('Escape');
    await page.fill('#text', 'Too short.');
    await page.click('#choose');
    await ended(page);
    expect(await page.textContent('#status')).toMatch(/expected/);
    await page.click('#another');
    await ended(page);
    expect(await page.isVisible('#text')).toBe(false);
    expect(await page.textContent('.side:nth-child(2) .answer')).toMatch(/^\w{8} is right$/);
    await page.close();
  });

  test('stops when told to, and runs again', async () => {
    // pressed before the worker can have answered: from out here the run may be over first
    const pressed = await browser.newContext();
    await pressed.addInitScript(() => {
      addEventListener('DOMContentLoaded', () => document.querySelector<HTMLButtonElement>('#stop')?.click());
    });
    const { page } = await open(pressed, `${site.url}#form=number&tokens=1024&device=cpu&a=full&b=full`);
    await ended(page);
    expect(await page.isDisabled('#stop')).toBe(true);
    expect((await sides(page)).every(({ answer }) => answer === '')).toBe(true);
    await more(page);
    await page.selectOption('[name=tokens]', '96');
    await page.click('#run');
    await ended(page);
    expect(await page.textContent('.side .answer')).toMatch(/^\d{7} is right$/);
    await pressed.close();
  });

  test('without WebGPU it runs on the CPU, and says why', async () => {
    const plain = await launch();
    try {
      const { page } = await open(await plain.newContext(), `${site.url}#${SHORT}&a=full&b=full&device=webgpu`);
      await ended(page);
      expect(await page.textContent('#device')).toBe(
        'Runs on the CPU (WebAssembly SIMD): this browser offers no WebGPU adapter.',
      );
      const { text } = await onNode('full');
      expect((await sides(page)).map(({ answer }) => answer)).toEqual([text, text]);
    } finally {
      await plain.close();
    }
  });

  test('after the first load it needs no server', async () => {
    const { page, complaints } = await open(context, `${site.url}#${SHORT}&device=cpu`);
    await ended(page);
    await page.getByText('Works without a network from now on.').waitFor();
    const said = await sides(page);
    await site.close();
    await expect(fetch(site.url)).rejects.toThrow();
    await page.reload();
    await ended(page);
    expect(await sides(page)).toEqual(said);
    await page.goto(`${site.url}machine.html`);
    await page.waitForSelector('#measure:enabled');
    await page.goto(`${site.url}chat.html`);
    await page.getByText('Works without a network from now on.').waitFor();
    // a page that is left ends what it still loads; without a server a request fails otherwise
    expect(complaints.filter((text) => !text.endsWith('net::ERR_ABORTED'))).toEqual([]);
    await page.close();
  });
});
