import { slotSizes, tokenBytes, slotRows } from '@kv/engine';
import { generate, Sequence } from '@kv/models';
import type { CacheForm } from '@kv/models';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { embedded, frames, serve } from './serve.ts';
import type { Serving } from './serve.ts';

let on: Serving;
const text = 'The Paris code is: XK7M9P2Q. The river was wide. The boys walked on. The Paris code is:';
beforeAll(async () => {
  on = await serve();
});
afterAll(() => on.server.close());

/** How the served model stores caches, and what a token takes. */
const stored = async (): Promise<{ form: CacheForm; bytesPerToken: number }> => {
  const { cacheForm: form, config } = await embedded();
  return { form, bytesPerToken: tokenBytes(form, config) };
};
const completion = (body: object) => on.post('/v1/completions', { temperature: 0, ...body });
const chat = (body: object) => on.post('/v1/chat/completions', { temperature: 0, ...body });
const user = (content: unknown) => [{ role: 'user', content }];

describe('completions', () => {
  test('answer a text, and say what it took', async () => {
    const { status, json } = await completion({ model: 'embedded', prompt: text, max_tokens: 9, stop: '.' });
    expect(status).toBe(200);
    expect(json.choices).toEqual([{ index: 0, text: ' XK7M9P2Q', logprobs: null, finish_reason: 'stop' }]);
    const { prompt_tokens, completion_tokens, total_tokens, kept_slots, dropped_slots, cache } = json.usage;
    expect([total_tokens, dropped_slots]).toEqual([prompt_tokens + completion_tokens, 0]);
    expect(kept_slots).toBe(8 * 2 * (total_tokens - 1)); // the last token is not fed
    const { form, bytesPerToken } = await stored(),
      bytes = (total_tokens - 1) * bytesPerToken;
    expect(cache).toEqual({ form, bytes_per_token: bytesPerToken, live_bytes: bytes, peak_bytes: bytes });
  });
  test('a prompt is a text, texts, ids or lists of ids; choices stand in order', async () => {
    const { ids } = (await embedded()).tokenizer.encode(text);
    const [one, several, asIds, lists] = await Promise.all(
      [text, [text, 'The river'], ids, [ids, [5, 6, 7]]].map((prompt) => completion({ prompt, max_tokens: 4, n: 2 })),
    );
    const texts = ({ json }: typeof one): string[] => json.choices.map((choice: { text: string }) => choice.text);
    expect(texts(one)).toEqual([texts(one)[0], texts(one)[0]]);
    expect(texts(several).slice(0, 2)).toEqual(texts(one));
    expect(texts(several)).toHaveLength(4);
    expect(texts(asIds)).toEqual(texts(one));
    expect(texts(lists).slice(0, 2)).toEqual(texts(one));
    expect(lists.json.choices.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2, 3]);
  });
  test('a seed repeats what is drawn, whatever else runs; choices differ', async () => {
    const drawn = (seed: number) =>
      on.post('/v1/completions', { prompt: 'The river', seed, n: 3, max_tokens: 8, temperature: 2, top_p: 0.99 });
    const [a, b, c] = await Promise.all([drawn(1), drawn(2), drawn(1)]);
    const texts = ({ json }: typeof a): string[] => json.choices.map((choice: { text: string }) => choice.text);
    expect(texts(c)).toEqual(texts(a));
    expect(texts(b)).not.toEqual(texts(a));
  });
  test('what is echoed and the answer are the text of all ids, in the middle of a character too', async () => {
    const model = await embedded(),
      { encode, decode } = model.tokenizer,
      part = fc.oneof(
        fc.constantFrom('The river ', '🐶 of', 'हिन्दी', '文'),
        fc.string({ unit: 'binary', maxLength: 2 }),
      );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 3 }), fc.nat(), async (parts, cut) => {
        const all = encode(parts.join('')).ids,
          prompt = all.slice(0, 1 + (cut % all.length)),
          { tokens } = await generate(model, { ids: prompt, maxNewTokens: 3, stopAtEos: true }),
          { json } = await completion({ prompt, max_tokens: 3, echo: true }),
          answer = (await completion({ prompt, max_tokens: 3 })).json.choices[0].text;
        expect(json.choices[0].text).toBe(decode([...prompt, ...tokens]));
        expect(json.choices[0].text.endsWith(answer)).toBe(true);
        const nothing = await completion({ prompt, max_tokens: 0, echo: true });
        expect(nothing.json.choices[0].text).toBe(decode(prompt));
      }),
      { numRuns: 15 },
    );
  });
  test('echo scores a prompt as the model does, the first token not at all', async () => {
    const model = await embedded(),
      { ids } = model.tokenizer.encode(text),
      sequence = new Sequence(model);
    await sequence.prefill(ids, { rows: ids.length });
    const wanted = (await sequence.logits()).slice(0, -1).map((row, i) => {
      const sum = row.reduce((all, x) => all + Math.exp(x), 0);
      return row[ids[i + 1]] - Math.log(sum);
    });
    sequence.destroy();
    for (const body of [{ prompt: text }, { prompt: ids }]) {
      const { json } = await completion({ ...body, echo: true, logprobs: 2, max_tokens: 1 });
      const [choice] = json.choices,
        { tokens, token_logprobs, top_logprobs, text_offset } = choice.logprobs;
      expect(choice.text.startsWith(text)).toBe(true);
      expect(tokens.join('')).toBe(`<s>${choice.text}`); // the tokenizer's own beginning is no text
      expect(token_logprobs).toHaveLength(ids.length + 1);
      expect([token_logprobs[0], top_logprobs[0]]).toEqual([null, null]);
      for (const [i, want] of wanted.entries()) {
        expect(Math.abs(token_logprobs[i + 1] - want)).toBeLessThan(1e-3);
        expect(Math.max(...(Object.values(top_logprobs[i + 1]) as number[]))).toBeGreaterThanOrEqual(
          token_logprobs[i + 1],
        );
        expect(choice.text.slice(text_offset[i + 1])).toMatch(
          new RegExp(`^${tokens[i + 1].replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`),
        );
      }
      expect(json.kv).toEqual({ policy: 'full', prompt_scored_under: 'full cache' });
    }
  });
  test('says under which cache a prompt was scored', async () => {
    const scored = async (more: object) =>
      (await completion({ prompt: text, echo: true, logprobs: 0, max_tokens: 0, ...more })).json;
    const [full, late, blocks] = [
      await scored({}),
      await scored({ policy: 'streaming', budget: 8 }),
      await scored({ policy: 'streaming', budget: 8, block: 8 }),
    ];
    expect([late.kv.prompt_scored_under, blocks.kv.prompt_scored_under]).toEqual(['full cache', 'evicted cache']);
    expect(late.choices[0].logprobs.token_logprobs).toEqual(full.choices[0].logprobs.token_logprobs);
    expect(blocks.choices[0].logprobs.token_logprobs).not.toEqual(full.choices[0].logprobs.token_logprobs);
    expect(blocks.usage.dropped_slots).toBeGreaterThan(0);
  });
});

describe('text that tokens do not respect', () => {
  const streamed = async (body: object): Promise<string[]> => {
    const answer = await fetch(`${on.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, stream: true }),
    });
    return (await frames(answer)).slice(0, -1).map((frame) => JSON.parse(frame).choices[0].text);
  };
  test('a stream says what the whole answer says, and never half a character', async () => {
    for (const temperature of [0, 2]) {
      const body = { prompt: '日本語 😀🎉 é 日本語 😀🎉 é', max_tokens: 60, temperature, seed: 7 },
        parts = await streamed(body),
        { json } = await completion(body);
      expect(parts.join('')).toBe(json.choices[0].text);
      for (const part of parts) expect(part).not.toMatch(/[\ud800-\udbff]$|^[\udc00-\udfff]/);
    }
  });
  test('a stop is found across tokens, and nothing of it is said', async () => {
    for (const stop of ['M9P', ['7M9', 'zzz']]) {
      const body = { prompt: text, max_tokens: 12, temperature: 0, stop },
        { json } = await completion(body);
      expect(json.choices[0]).toMatchObject({ text: stop === 'M9P' ? ' XK7' : ' XK', finish_reason: 'stop' });
      expect((await streamed(body)).join('')).toBe(json.choices[0].text);
    }
  });
});

describe('chat', () => {
  test('reads parts, ends at a line without a template, scores tokens', async () => {
    const { json } = await chat({
      messages: [{ role: 'developer', content: 'The boys walked on.' }, ...user([{ type: 'text', text }])],
      max_completion_tokens: 6,
      logprobs: true,
      top_logprobs: 2,
    });
    const [{ message, logprobs }] = json.choices;
    expect(message.content).toMatch(/^ XK7M/);
    expect(logprobs.content.map(({ token }: { token: string }) => token).join('')).toBe(message.content);
    for (const { logprob, top_logprobs, bytes, token } of logprobs.content) {
      expect(top_logprobs[0].logprob).toBe(logprob); // greedy
      expect(new TextDecoder().decode(Uint8Array.from(bytes))).toBe(token);
    }
  });
  test('streams what it would say at once, and usage where it is asked for', async () => {
    const body = { messages: user(text), max_tokens: 7, temperature: 0, n: 2 };
    const whole = await chat(body);
    const answer = await fetch(`${on.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    });
    expect(answer.headers.get('content-type')).toContain('text/event-stream');
    const all = await frames(answer);
    expect(all.at(-1)).toBe('[DONE]');
    const parsed = all.slice(0, -1).map((frame) => JSON.parse(frame));
    for (const i of [0, 1]) {
      const own = parsed.flatMap(({ choices }) => choices).filter(({ index }) => index === i);
      expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe(whole.json.choices[i].message.content);
      expect(own[0].delta.role).toBe('assistant');
      expect(own.at(-1).finish_reason).toBe(whole.json.choices[i].finish_reason);
    }
    expect(parsed.at(-1).usage.completion_tokens).toBe(whole.json.usage.completion_tokens);
  });
});

describe('refusals', () => {
  const cases: readonly [object | string, number, string | null][] = [
    [{ prompt: 'a', tools: [{ type: 'function', function: { name: 'f' } }] }, 400, 'tools'],
    [{ prompt: 'a', temperature: 3 }, 400, 'temperature'],
    [{ prompt: 'a', top_p: -1 }, 400, 'top_p'],
    [{ prompt: 'a', n: 2, best_of: 3 }, 400, 'best_of'],
    [{ prompt: 'a', n: 0 }, 400, 'n'],
    [{ prompt: 'a', stop: [1] }, 400, 'stop'],
    [{ prompt: 'a', stream_options: { other: 1 } }, 400, 'stream_options.other'],
    [{ prompt: 'a', frequency_penalty: 3 }, 400, 'frequency_penalty'],
    [{ prompt: 'a', suffix: 'b' }, 400, 'suffix'],
    [{ prompt: [] }, 400, 'prompt'],
    [{ prompt: [1, 'a'] }, 400, 'prompt'],
    [{ prompt: [[1], [5000]] }, 400, 'prompt[1]'],
    [{}, 400, 'prompt'],
    [{ prompt: 'a', max_tokens: 5000 }, 400, 'max_tokens'],
    [{ prompt: 'a', model: 'another' }, 404, 'model'],
    [{ prompt: 'a', model: '../embedded' }, 404, 'model'],
    [{ prompt: 'a', policy: './mine.mjs' }, 400, 'policy'],
    [{ prompt: 'a', policy: 'https://localhost/mine.mjs' }, 400, 'policy'],
    [{ prompt: 'a', policy: 'node:fs' }, 400, 'policy'],
    [{ prompt: 'a', policy: 'sponsorship(by=matching(pattern="(a+)+b"))', budget: 9 }, 400, 'policy'],
    [{ prompt: 'a', policy: 'snapkv' }, 400, 'budget'],
    [{ prompt: 'a', policy: 'snapkv', budget: '0%' }, 400, 'budget'],
    [{ prompt: 'a', policy: 'snapkv', budget: 2 }, 400, 'budget'],
    [{ prompt: 'a', policy: 'knorm', budget: '9B' }, 400, 'budget'],
    [{ prompt: 'a', policy: 'knorm', budget: '64 MiB' }, 400, 'budget'],
    [{ prompt: 'a', policy: 'knorm', budget: '1000% of f16' }, 400, 'budget'],
    [{ prompt: 'a', policy: 'knorm', budget: '25% of q9' }, 400, 'budget'],
    [{ prompt: 'a', policy: 'knorm', budget: { bytes: 9 } }, 400, 'budget'],
    [{ prompt: 'a', policy: 'knorm', budget: { bytes: 1.5 } }, 400, 'budget'],
    [{ prompt: 'a', budget: 4 }, 400, 'budget'],
    [{ prompt: 'a', policy: 'snapkv', budget: 64, block: 0 }, 400, 'block'],
    [{ prompt: 'a '.repeat(9000) }, 400, 'prompt'],
    [{ prompt: ['a', 'a'.repeat(40_000)] }, 400, 'prompt[1]'],
    [{ prompt: Array(5000).fill(1) }, 400, 'prompt'],
    ['{', 400, null],
    ['[]', 400, 'body'],
    ['{"__proto__": {"prompt": "a"}}', 400, null],
  ];
  test.each(cases)('%j', async (body, status, param) => {
    const answer = await on.post('/v1/completions', body);
    expect([answer.status, answer.json.error.param]).toEqual([status, param]);
    expect(answer.json.error).toEqual({
      message: expect.any(String),
      type: 'invalid_request_error',
      param,
      code: answer.json.error.code,
    });
    if (param !== null && param !== 'body') expect(answer.json.error.message).toContain(param.replace(/\[\d\]$/, ''));
  });
  test.each([
    [[{ role: 'tool', content: 'a' }], 'messages[0].role'],
    [user([{ type: 'image_url', image_url: {} }]), 'messages[0].content[0].type'],
    [user([{ type: 'text' }]), 'messages[0].content[0].text'],
    [user(null), 'messages[0].content'],
    [[{ role: 'assistant', content: 'a', other: [] }], 'messages[0].other'],
    [[], 'messages'],
  ])('messages %j', async (messages, param) => {
    const answer = await chat({ messages });
    expect([answer.status, answer.json.error.param]).toEqual([400, param]);
  });
  test('bytes that are no UTF-8, another type, no such place, too long a body', async () => {
    const refused = async (path: string, init: RequestInit): Promise<unknown[]> => {
      const answer = await fetch(`${on.url}${path}`, { method: 'POST', ...init });
      return [answer.status, typeof ((await answer.json()) as { error: { message: string } }).error.message];
    };
    const json = { 'content-type': 'application/json' };
    expect(
      await refused('/v1/completions', { headers: json, body: Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d) }),
    ).toEqual([400, 'string']);
    expect(await refused('/v1/completions', { headers: { 'content-type': 'text/plain' }, body: '{}' })).toEqual([
      415,
      'string',
    ]);
    expect(await refused('/v1/nothing', { headers: json, body: '{}' })).toEqual([404, 'string']);
    expect(
      await refused('/v1/completions', { headers: json, body: JSON.stringify({ prompt: 'a'.repeat(5 * 2 ** 20) }) }),
    ).toEqual([413, 'string']);
  });
  test('any JSON at all is answered or refused in the protocol, and never a fault', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('/v1/completions', '/v1/chat/completions'),
        fc.jsonValue(),
        fc.dictionary(
          fc.constantFrom('prompt', 'messages', 'n', 'stop', 'policy', 'budget', 'block', 'seed', 'logprobs', 'stream'),
          fc.jsonValue(),
        ),
        async (path, any, fields) => {
          for (const body of [any, { ...fields, max_tokens: 1 }]) {
            const answer = await fetch(`${on.url}${path}`, {
              method: 'POST',
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify(body),
            });
            expect(answer.status).toBeLessThan(500);
            await answer.text();
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe('who may ask', () => {
  test('with keys one of them is expected, and none of them is in a log', async () => {
    const keys = ['sk-first-5d1f', 'sk-second-77aa'],
      keyed = await serve({ keys });
    const status = async (authorization?: string): Promise<number> =>
      (await fetch(`${keyed.url}/v1/models`, { headers: authorization === undefined ? {} : { authorization } })).status;
    expect(await Promise.all(keys.map((key) => status(`Bearer ${key}`)))).toEqual([200, 200]);
    for (const wrong of [undefined, 'Bearer sk-first-5d1', 'Bearer ', 'Basic sk-first-5d1f', 'sk-first-5d1f'])
      expect(await status(wrong)).toBe(401);
    expect((await fetch(`${keyed.url}/health`)).status).toBe(200);
    await fetch(`${keyed.url}/v1/models?api_key=${keys[0]}`);
    const refused = await keyed.post('/v1/completions', '{', { authorization: `Bearer ${keys[1]}` });
    expect(refused.status).toBe(400);
    await keyed.server.close();
    expect(keyed.lines.length).toBeGreaterThan(8);
    for (const key of keys) expect(JSON.stringify(keyed.lines)).not.toContain(key);
  });
  test('a log is redacted, in addresses and in traces of faults, where that is asked for', async () => {
    const model = await embedded(),
      encode = (): never => {
        throw new Error('cannot read password: hunter2');
      };
    for (const redact of [undefined, (said: string) => said.replaceAll('hunter2', '[redacted]')]) {
      const faulty = await serve({
        redact,
        model: { ...model, tokenizer: { ...model.tokenizer, encodeParts: encode } } as typeof model,
      });
      expect((await faulty.post('/v1/completions', { prompt: 'password: hunter2' })).status).toBe(500);
      await fetch(`${faulty.url}/v1/models/password=hunter2`);
      await faulty.server.close();
      const log = JSON.stringify(faulty.lines);
      expect(log).toContain('cannot read password: ');
      expect(log).toContain('/v1/models/password=');
      expect(log.includes('hunter2')).toBe(redact === undefined);
    }
  });
  test('without keys any key is ignored, only loopback is listened on, and only by its name', async () => {
    expect((await fetch(`${on.url}/v1/models`, { headers: { authorization: 'Bearer anything' } })).status).toBe(200);
    const other = await serve();
    await expect(other.server.listen({ host: '0.0.0.0', port: 0 })).rejects.toThrow(
      'host: expected a loopback address such as 127.0.0.1 without API keys, got 0.0.0.0',
    );
    await other.server.close();
    const { request } = await import('node:http');
    const status = await new Promise((resolve) =>
      request(`${on.url}/v1/models`, { headers: { host: 'evil.example' } }, (answer) =>
        resolve(answer.statusCode),
      ).end(),
    );
    expect(status).toBe(403);
  });
  test('a share keeps what the policy forces of a message of any length, and says so', async () => {
    const short = await serve({ policy: 'snapkv(window=16)', budget: '25%' });
    for (const words of [1, 2, 4, 8, 40]) {
      const { status, json } = await short.post('/v1/completions', { prompt: 'walk '.repeat(words), max_tokens: 2 });
      expect(status, JSON.stringify(json)).toBe(200);
      expect(json.kv.notes).toEqual(
        json.usage.prompt_tokens * 0.25 < 16
          ? ['kept more than 25%, as snapkv(window=16,kernel=5) forces more slots']
          : undefined,
      );
    }
    const { status, json } = await short.post('/v1/completions', { prompt: 'walk', max_tokens: 2, budget: 8 });
    expect([status, json.error.param]).toEqual([400, 'budget']);
    expect(json.error.message).toContain('expected a budget of at least 16, as snapkv(window=16');
    await short.server.close();
  });

  test('a budget in bytes keeps as many slots as they hold', async () => {
    const model = await embedded(),
      { bytesPerSlot } = slotSizes(model.config, model.cacheForm),
      rows = slotRows(model.config);
    for (const budget of [{ bytes: 8 * bytesPerSlot + 1 }, `${8 * bytesPerSlot}B`, 8]) {
      const { json } = await on.post('/v1/completions', { prompt: text, policy: 'knorm', budget, max_tokens: 1 });
      expect([json.kv.budget, json.usage.kept_slots]).toEqual([budget, 8 * rows]);
    }
    const { json } = await on.post('/v1/completions', { prompt: text, policy: 'knorm', budget: '9B' });
    expect(json.error.message).toContain("'budget': 9B hold no slot: one slot in every layer and KV head is");
  });

  test('an operator may fix the policy', async () => {
    const { parsePolicy } = await import('@kv/policies');
    const fixed = await serve({ fixedPolicy: true, policy: parsePolicy('streaming'), budget: '50%' });
    for (const [field, value] of Object.entries({ policy: 'full', budget: 9, block: 9, every: 9 })) {
      const { status, json } = await fixed.post('/v1/completions', { prompt: text, [field]: value });
      expect([status, json.error.param]).toEqual([400, field]);
    }
    const { json } = await fixed.post('/v1/completions', { prompt: text, max_tokens: 1 });
    expect(json.kv).toEqual({ policy: 'streaming ∘ topK', budget: '50%' });
    expect(json.usage.dropped_slots).toBeGreaterThan(0);
    await fixed.server.close();
  });
});

test('models, metrics, health and the page, which runs no text as code', async () => {
  const get = async (path: string): Promise<Response> => fetch(`${on.url}${path}`);
  expect(await (await get('/v1/models')).json()).toEqual({
    object: 'list',
    data: [{ id: 'embedded', object: 'model', created: expect.any(Number), owned_by: 'kv' }],
  });
  expect((await get('/v1/models/embedded')).status).toBe(200);
  expect((await get('/v1/models/another')).status).toBe(404);
  const metrics = await (await get('/metrics')).text(),
    { form, bytesPerToken } = await stored();
  expect(await (await get('/health')).json()).toEqual({
    status: 'ok',
    cache: { form, bytesPerToken, stateBytes: 0 },
  });
  expect(await (await get('/status')).json()).toMatchObject({ cache: { form, bytesPerToken } });
  for (const line of [
    'kv_memory_bytes{kind="promised"}',
    'kv_tokens_total{kind="completion"}',
    'kv_promise_exceeded_total 0',
    `kv_cache_bytes_per_token{form="${form}"} ${bytesPerToken}`,
  ])
    expect(metrics).toContain(line);
  const page = await get('/');
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self';");
  expect(await page.text()).not.toMatch(/<script(?![^>]*src=)|style=|onclick=/);
  for (const path of ['/page.js', '/page.css', '/status']) expect((await get(path)).status).toBe(200);
});
