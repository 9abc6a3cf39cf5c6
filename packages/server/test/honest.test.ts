import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { frames, serve } from './serve.ts';
import type { Serving } from './serve.ts';

const text =
    'The wide river was wide. The code is: XK7M9P2Q. He said that the boat was old, and the river cold. And on it went, day after day, to the sea. Nobody knew the code. The code is:',
  messages = [
    { role: 'system', content: 'You answer in one word, and never more than that.' },
    { role: 'user', content: text },
  ];
let on: Serving;
beforeAll(async () => {
  on = await serve({ protect: ['system'], policy: 'streaming(sinks=2)', budget: 40 });
});
afterAll(async () => on.server.close(0));
const chat = (body: object) => on.post('/v1/chat/completions', { messages, max_tokens: 4, temperature: 0, ...body });

describe('what an answer says of its memory', () => {
  test('slots, bytes and tokens add up, in the body and in the header', async () => {
    const { json, headers, status } = await chat({ kv: { protect: ['XK7M9P2Q'] } }),
      { kv, prompt_tokens: prompt, kept_slots, dropped_slots } = json.usage;
    expect(status).toBe(200);
    expect(kv.slots).toEqual({ kept: kept_slots, dropped: dropped_slots });
    expect(kv.bytes.live).toBe(json.usage.cache.live_bytes);
    expect(kv.tokens.read + kv.tokens.reused).toBe(prompt);
    expect(kv.tokens.dropped).toBeGreaterThan(0);
    expect(kv.tokens.protected).toBeGreaterThan(8);
    expect(kv.budget).toBe(40);
    expect(JSON.parse(headers.get('x-kv-usage')!)).toEqual(kv);
  });
  test('a stream says what holds from its start in a header, and the rest with the usage', async () => {
    const answer = await fetch(`${on.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ messages, max_tokens: 2, stream: true, stream_options: { include_usage: true } }),
      }),
      header = JSON.parse(answer.headers.get('x-kv-usage')!),
      last = JSON.parse((await frames(answer)).at(-2)!);
    expect(last.usage.kv).toMatchObject(header);
    expect(header).toEqual({
      tokens: { protected: expect.any(Number) },
      policy: 'streaming(sinks=2) ∘ topK',
      budget: 40,
    });
    expect(header.tokens.protected).toBeGreaterThan(0);
  });
  test('a policy whose label is no ASCII fits a header', async () => {
    const { headers, json } = await chat({ policy: 'knorm', budget: 30 });
    expect(json.usage.kv.policy).toBe('knorm ∘ topK');
    expect(JSON.parse(headers.get('x-kv-usage')!).policy).toBe('knorm ∘ topK');
  });
});

describe('kv.protect', () => {
  test.each([
    [{ protect: ['nowhere'] }, 400, /'nowhere', which does not/],
    [{ protect: [[0, 4000]] }, 400, /ranges of the \d+ positions/],
    [{ protect: [text] }, 400, /positions are protected in every layer and KV head, of which the budget has 40 slots/],
    [{ protect: [[3, 1]] }, 400, /got \[3, 1\)/],
    [{ protect: [7] }, 400, /'kv.protect\[0\]' must be 'system', 'tools', 'first-user', a text/],
    [{ protected: [] }, 400, /'kv.protected' is not supported/],
    [
      { policy: 'snapkv' },
      400,
      /'kv.policy' is not supported: 'policy', 'budget', .* are fields of the request itself/,
    ],
  ])('%j is refused', async (kv, status, sentence) => {
    const { json, status: got } = await chat({ kv });
    expect(json.error.message).toMatch(sentence);
    expect(got).toBe(status);
  });
  test('of a prompt has texts and ranges, and no names', async () => {
    const ask = (protect: unknown) => on.post('/v1/completions', { prompt: text, max_tokens: 1, kv: { protect } });
    expect((await ask(['XK7M9P2Q', [0, 4]])).json.usage.kv.tokens.protected).toBeGreaterThan(8);
    expect((await ask(['system'])).json.error.message).toMatch(/expected messages, of which 'system' is a part/);
  });
});
