import { appendFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { main } from '../src/main.ts';
import { CHAT_MODEL } from '../src/model-source.ts';
import { weightsDigest } from '../src/weights-digest.ts';
import { startHub } from './hub.ts';
import { folder, kv } from './terminal.ts';
import { writeTinyModel } from '@kv/model-testing';
import { writeEmbeddedGguf, writeEmbeddedParts } from '@kv/model-testing/embedded-gguf';

let hub: Awaited<ReturnType<typeof startHub>>, model: string, cwd: string;
beforeEach(async () => {
  cwd = folder();
  model = writeTinyModel(join(folder(), 'tiny'));
  hub = await startHub(model, 1);
  vi.stubEnv('HF_HOME', folder());
  vi.stubEnv('HF_ENDPOINT', hub.url);
  for (const name of [
    'HF_HUB_CACHE',
    'HUGGINGFACE_HUB_CACHE',
    'HF_TOKEN',
    'HUGGING_FACE_HUB_TOKEN',
    'HF_HUB_OFFLINE',
    'TRANSFORMERS_OFFLINE',
  ])
    vi.stubEnv(name, '');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await hub.close();
});
const RUN = ['--prompt', 'Hello', '--max-new-tokens', '4', '--json'];
const tokens = (stdout: string): unknown => (JSON.parse(stdout) as { tokens: unknown }).tokens;

it('kv run takes a repository of the hub, reports its download on stderr, and uses no network the next time', async () => {
  const first = await kv(['run', '--model', 'org/tiny', ...RUN], { cwd });
  expect(first).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(
      /^model: downloading org\/tiny, [\d.]+ KiB, licence mit, once, into the Hugging Face cache\nmodel: org\/tiny is in the Hugging Face cache\n$/,
    ) as string,
  });
  expect(tokens(first.stdout)).toEqual(tokens((await kv(['run', '--model', model, ...RUN], { cwd })).stdout));
  hub.asked.length = 0;
  const second = await kv(['run', '--model', 'org/tiny', ...RUN], { cwd });
  expect([second.stderr, tokens(second.stdout), hub.asked]).toEqual(['', tokens(first.stdout), []]);
});
it('kv chat without options talks with the suggested model, which it fetches once with size and licence', async () => {
  await hub.close();
  hub = await startHub(model, 1, CHAT_MODEL);
  vi.stubEnv('HF_ENDPOINT', hub.url);
  const talk = (): ReturnType<typeof kv> => kv(['chat', '--max-new-tokens', '4'], { cwd, lines: ['Hello'] });
  const first = await talk();
  expect([first.code, first.stderr]).toEqual([
    0,
    expect.stringMatching(
      new RegExp(`^model: downloading ${CHAT_MODEL}, [\\d.]+ KiB, licence mit,[^]*outstandingSentences keeps 64 slots`),
    ),
  ]);
  expect(first.stdout.trim()).not.toBe('');
  hub.asked.length = 0;
  expect([(await talk()).stdout, hub.asked]).toEqual([first.stdout, []]);
});
it("takes llama.cpp's flag for a model of the hub, and a word like it after --", async () => {
  const named = await kv(['run', '-hf', 'org/tiny', 'Hello', '--max-new-tokens', '4', '--json'], { cwd });
  expect(tokens(named.stdout)).toEqual(tokens((await kv(['run', '-m', model, ...RUN], { cwd })).stdout));
  expect((await kv(['run', '-m', model, '--max-new-tokens', '1', '--', '-hf'], { cwd })).code).toBe(0);
});
it('a GGUF file in parts runs from the hub, a path and a URL, and a part that is missing is named', async () => {
  await hub.close();
  const parts = folder(),
    [first, second] = writeEmbeddedParts(parts, 3);
  hub = await startHub(parts);
  vi.stubEnv('HF_ENDPOINT', hub.url);
  const run = (name: string): ReturnType<typeof kv> => kv(['run', '-m', name, ...RUN], { cwd }),
    url = `${hub.url}/org/tiny/resolve/${'a'.repeat(40)}/${first}`;
  const want = tokens((await run(writeEmbeddedGguf(join(folder(), 'whole.gguf')))).stdout);
  for (const name of ['org/tiny', `org/tiny/${second}`, url, join(parts, first)])
    expect(tokens((await run(name)).stdout)).toEqual(want);
  const digest = await weightsDigest(join(parts, first));
  appendFileSync(join(parts, second), 'more');
  expect(await weightsDigest(join(parts, first))).not.toBe(digest);
  rmSync(join(parts, second));
  expect(await run(join(parts, first))).toMatchObject({
    code: 2,
    stderr: `${join(parts, second)}: expected a file, got none\n`,
  });
});
it('kv explain and the checks of kv needle take it too', async () => {
  expect(await kv(['explain', 'knorm', '--model', 'org/tiny', '--length', '200'], { cwd })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('50 of 200') as string,
  });
  expect(await kv(['needle', '--model', 'org/tiny', '--tokens', '1000'], { cwd })).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^--tokens: expected at most \d+, .* context of org\/tiny, got 1000\n$/) as string,
  });
});
it('shows a bar on a terminal', async () => {
  let shown = '';
  const stderr = {
    isTTY: true,
    columns: 120,
    write: (text: string) => void (shown += text),
    on: () => {},
    removeListener: () => {},
    cursorTo: () => {},
    clearLine: () => {},
    moveCursor: () => {},
  };
  expect(
    await main(['run', '--model', 'org/tiny', ...RUN], {
      stdout: { write: () => {} },
      stderr,
      signal: new AbortController().signal,
      cwd,
      debug: false,
    }),
  ).toBe(0);
  expect(shown).toMatch(
    /░ \d+ B of [\d.]+ KiB, .*█ [\d.]+ KiB of [\d.]+ KiB, [\d.]+ [KM]iB\/s, 0 s left {2}model\.safetensors/,
  );
});
it.each([
  [
    ['--model', 'org/none'],
    /^org\/none: expected a repository on http:.*, got none of this name \(for a private one set HF_TOKEN\)\n$/,
  ],
  [
    ['--model', 'org/tiny:Q8_0'],
    /^org\/tiny: expected a \.gguf file of type Q8_0, got only config\.json, model\.safetensors, tokenizer\.json\n$/,
  ],
])('%j is one sentence and exit code 2', async (args, sentence) => {
  const { code, stdout, stderr } = await kv(['run', ...args, ...RUN], { cwd });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(sentence);
});
it('without network it is one sentence too', async () => {
  vi.stubEnv('HF_HUB_OFFLINE', '1');
  const { code, stderr } = await kv(['run', '--model', 'org/tiny', ...RUN], { cwd });
  expect([code, hub.asked]).toEqual([2, []]);
  expect(stderr).toMatch(
    /^org\/tiny: expected the model in .*, since no network may be used, got no such folder \(revision main\); a model on this machine is named by its path, such as \.\/model\.gguf\n$/,
  );
  vi.stubEnv('HF_HUB_OFFLINE', '');
  vi.stubEnv('HF_ENDPOINT', 'http://127.0.0.1:9');
  expect((await kv(['run', '--model', 'org/tiny', ...RUN], { cwd })).stderr).toMatch(
    /^http:.*: expected an answer, got .*; a model on this machine is named by its path, such as \.\/model\.gguf\n$/,
  );
});
