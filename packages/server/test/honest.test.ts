import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createServer } from '../src/index.ts';
import { catalogue } from '@kv/policies';
import { embedded, frames, serve } from './serve.ts';
import type { Serving } from './serve.ts';

const text =
    'The wide river was wide. The code is: XK7M9P2Q. He said that the boat was old, and the river cold. And on it went, day after day, to the sea. No one knew the code. The code is:',
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
      { kv, prompt_tokens: prompt, kept_slots, dropped_slots } = json.usage,
      { notes, ...counts } = kv;
    expect(status).toBe(200);
    expect(kv.slots).toEqual({ kept: kept_slots, dropped: dropped_slots });
    expect(kv.bytes.live).toBe(json.usage.cache.live_bytes);
    expect(kv.tokens.read + kv.tokens.reused).toBe(prompt);
    expect(kv.tokens.dropped).toBeGreaterThan(0);
    expect(kv.tokens.protected).toBeGreaterThan(8);
    expect(kv.budget).toBe(40);
    expect(JSON.parse(headers.get('x-kv-usage')!)).toEqual(counts);
    expect(notes).toEqual(json.kv.notes);
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
      tokens: { protected: expect.any(Number), read: expect.any(Number), reused: expect.any(Number) },
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
  test('of one client is not that of another, whose prompt begins alike', async () => {
    const own = await serve({ limits: { part: 16 } }),
      long = Array.from({ length: 40 }, () => text)
        .join(' ')
        .slice(0, 2400),
      ask = (body: object) => own.post('/v1/completions', { max_tokens: 2, temperature: 0, ...body }),
      first = await ask({ prompt: long, policy: 'knorm | topK', budget: '100%', kv: { protect: [[0, 200]] } }),
      second = await ask({ prompt: `${long} And then?`, policy: 'streaming', budget: 64 });
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(second.json.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(200);
    expect(second.json.usage.kv.tokens.protected).toBe(0);
    await own.server.close(0);
  });
  test.each([
    [{ protect: ['nowhere'] }, 400, /'nowhere', which does not/],
    [{ protect: [[0, 4000]] }, 400, /ranges of the \d+ positions/],
    [{ protect: [text] }, 400, /positions are protected, and each KV head has a budget of 40 slots/],
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
  test('of a conversation that has no such part is told', async () => {
    const { json } = await chat({ messages: [{ role: 'user', content: 'Hello' }], kv: { protect: ['tools'] } });
    expect(json.kv.notes).toEqual(["'tools' is to be protected, and the conversation has none"]);
  });
  test('of a prompt has texts and ranges, and no names', async () => {
    const ask = (protect: unknown) => on.post('/v1/completions', { prompt: text, max_tokens: 1, kv: { protect } });
    expect((await ask(['XK7M9P2Q', [0, 4]])).json.usage.kv.tokens.protected).toBeGreaterThan(8);
    expect((await ask(['system'])).json.error.message).toMatch(/expected messages, of which 'system' is a part/);
  });
});

test('what a server protects may be texts: one that is in no prompt is told, and what does not fit names no field', async () => {
  const plain = await serve({
      protect: ['first-user', 'XK7M9P2Q', 'ORDER 7'],
      policy: 'streaming(sinks=2)',
      budget: 64,
    }),
    ask = async (content: string) =>
      (
        await plain.post('/v1/chat/completions', {
          messages: [{ role: 'user', content }],
          ...{ max_tokens: 1, temperature: 0 },
        })
      ).json;
  const { kv, usage } = await ask('The code is: XK7M9P2Q.');
  expect(kv.notes).toEqual(["'ORDER 7', which this server protects, stands nowhere in the prompt"]);
  expect(usage.kv.tokens.protected).toBeGreaterThan(8);
  expect((await ask(text)).error).toMatchObject({
    param: null,
    message: expect.stringMatching(/^what this server protects in every conversation does not fit: \d+ positions/),
  });
  const prompt = await plain.post('/v1/completions', { prompt: 'XK7M9P2Q or so', max_tokens: 1 });
  expect(prompt.json.usage.kv.tokens.protected).toBeGreaterThan(3);
  await plain.server.close();
});

describe('a conversation under a budget', () => {
  const ask = (given: readonly object[], more: object = {}) => chat({ messages: given, ...more });
  const why = (given: readonly object[], sought: string, more: object = {}) =>
    on.post('/v1/kv/why', { messages: given, text: sought, ...more });

  test('keeps what is protected turn after turn, and says of any text how much is left', async () => {
    const kv = { protect: ['XK7M9P2Q'] };
    let talk: object[] = [...messages];
    for (let turn = 0; turn < 4; turn++) {
      const { json, status } = await ask(talk, { kv });
      expect([status, json.error]).toEqual([200, undefined]);
      const { tokens, slots } = json.usage.kv;
      expect(tokens.reused > 0).toBe(turn > 0);
      expect(slots.kept + slots.dropped).toBeGreaterThan(0);
      talk = [...talk, json.choices[0].message];
      const kept = await why(talk, 'XK7M9P2Q'),
        gone = await why(talk, 'the boat was old');
      expect(kept.json).toMatchObject({ object: 'kv.why', found: 1, places: [{ kept: 1 }], slots });
      expect(new Set(kept.json.places[0].tokens)).toEqual(new Set([1]));
      expect(gone.json.places[0].kept).toBeLessThan(1);
      expect(gone.json.tokens.dropped).toBe(tokens.dropped);
      expect((await why(talk, 'never said')).json).toMatchObject({ found: 0, places: [] });
      talk.push({ role: 'user', content: 'And how cold was the river, and how old was the boat?' });
    }
  });
  test('reads itself again where a text is protected that was dropped before', async () => {
    const first = await ask([{ role: 'user', content: `${text} Well?` }]),
      talk = [
        { role: 'user', content: `${text} Well?` },
        first.json.choices[0].message,
        { role: 'user', content: 'So?' },
      ],
      on1 = await ask(talk),
      again = await ask(talk, { kv: { protect: ['the boat was old'] } });
    expect(on1.json.usage.kv.tokens.reused).toBeGreaterThan(0);
    expect(again.json.usage.kv.tokens.reused).toBe(0);
    const whole = [...talk, again.json.choices[0].message];
    expect((await why(whole, 'the boat was old')).json.places[0].kept).toBe(1);
  });
  test.each([
    [[...messages], {}, 400, /must end in an answer of the assistant/],
    [[...messages, { role: 'assistant', content: 'never answered' }], {}, 404, /not in memory: send its next message/],
    [[...messages, { role: 'assistant', content: 'x' }], { text: '' }, 400, /'text' must be a text of at most/],
  ])('why refuses what it cannot look at', async (given, more, status, sentence) => {
    const { json, status: got } = await why(given, 'river', more);
    expect(json.error.message).toMatch(sentence);
    expect(got).toBe(status);
  });
  test('a budget in bytes is that of the conversation, at every turn', async () => {
    const bytes = 6 * 2 ** 10;
    let talk: object[] = [{ role: 'user', content: text }];
    for (let turn = 0; turn < 4; turn++) {
      const { json, status } = await ask(talk, { policy: 'streaming(sinks=1)', budget: { bytes }, every: 1, kv: {} }),
        { live } = json.usage.kv.bytes,
        slot = json.usage.cache.bytes_per_token;
      expect(status).toBe(200);
      // at most one token more than the event before it left
      expect(live).toBeLessThanOrEqual(bytes + slot);
      expect(live).toBeGreaterThan(bytes - 2 * slot);
      talk = [...talk, json.choices[0].message, { role: 'user', content: text }];
    }
  });
});

test('a server refuses a budget that nothing keeps, and listens once', async () => {
  const model = await embedded(),
    of = (more: object) => createServer({ model, name: 'x', memory: 2 ** 28, registry: catalogue, ...more });
  expect(() => of({ budget: 64 })).toThrow('policy: expected the policy that keeps a budget of 64, such as');
  expect(() => of({ policy: 'streaming' })).toThrow(/^budget: 'streaming.*' evicts, so a budget is expected/);
  const { server } = await serve();
  await expect(server.listen({ port: 0 })).rejects.toThrow(
    'listen: expected a server that has not listened yet, got one that listens',
  );
  await server.close();
  await expect(server.listen({ port: 0 })).rejects.toThrow('got one that was closed');
});
