import { connect } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { embedded, serve } from './serve.ts';
import type { Serving } from './serve.ts';

let on: Serving;
const warnings: string[] = [];
const warned = ({ message }: Error): void => void warnings.push(message);
beforeAll(async () => {
  process.on('warning', warned);
  on = await serve();
});
afterAll(() => {
  process.off('warning', warned);
  return on.server.close();
});

/** Sends raw bytes and returns the answer. @param open whether more of the request may come */
const raw = (
  text: string,
  { url }: { readonly url: string } = on,
  open = false,
): Promise<{ readonly status: number; readonly head: string; readonly json: any }> =>
  new Promise((resolve) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () =>
      open ? socket.write(text) : socket.end(text),
    );
    let said = '';
    socket.on('data', (data) => (said += data.toString()));
    socket.on('close', () => {
      const end = said.indexOf('\r\n\r\n');
      resolve({
        status: Number(said.split(' ')[1]),
        head: said.slice(0, end),
        json: JSON.parse(said.slice(end + 4)),
      });
    });
  });
const error = { message: expect.any(String), type: expect.any(String), param: null, code: null };

describe('bodies and headers', () => {
  test.each(['[', '{"a":'])('5,000 times %s within one another', async (open) => {
    const deep = open.repeat(5000) + (open === '[' ? '' : '1') + (open === '[' ? ']' : '}').repeat(5000);
    for (const body of [deep, `{"prompt":${deep}}`, `{"prompt":"a","metadata":{"a":${deep}}}`]) {
      const { status, json } = await on.post('/v1/completions', body);
      expect([status, json.error.message]).toEqual([
        400,
        'the body must have at most 64 lists and objects within one another',
      ]);
      expect(json.error).toEqual(error);
    }
  });
  test.each(Object.entries({ gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }))(
    'a body in %s',
    async (encoding, compress) => {
      const { status, json } = await on.post('/v1/completions', new Uint8Array(compress('{"prompt":"a"}')), {
        'content-encoding': encoding,
      });
      expect([status, json.error.message]).toEqual([415, expect.stringContaining(`'content-encoding: ${encoding}'`)]);
    },
  );
  test('another type says what is expected', async () => {
    const { status, json } = await on.post('/v1/completions', '{}', { 'content-type': 'text/plain' });
    expect([status, json.error.message]).toEqual([
      415,
      "the header 'content-type: application/json' is expected with the body, got 'text/plain'",
    ]);
  });
  test.each(['Host: localhost', 'Authorization: a', 'Content-Type: application/json'])('%s twice', async (header) => {
    const { status, json } = await raw(`GET /health HTTP/1.1\r\nHost: localhost\r\n${header}\r\n${header}\r\n\r\n`);
    expect([status, json.error.message]).toEqual([400, expect.stringContaining('is expected once')]);
  });
  test.each(['/%E0%A4%A', '/v1/models/%zz', '/a\u0000b', '//', '/v1/completions?%'])('GET %j', async (path) => {
    const { status, json } = await raw(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    expect([400, 404, 405]).toContain(status);
    expect(json.error).toMatchObject({ message: expect.any(String), type: 'invalid_request_error' });
  });
  test.each([
    ['GET', '/v1/chat/completions', 'POST'],
    ['DELETE', '/v1/messages', 'POST'],
    ['POST', '/v1/models', 'GET'],
  ])('%s %s says how it is answered', async (method, path, with_) => {
    const answer = await fetch(`${on.url}${path}`, { method }),
      { error } = (await answer.json()) as { error: { message: string } };
    expect([answer.status, error.message]).toEqual([405, `${path} is answered at ${with_}, got ${method}`]);
  });
  test.each([
    ['another method', 'GET', '/v1/messages', {}],
    ['another method below', 'GET', '/v1/messages/count_tokens', {}],
    ['nothing there', 'POST', '/v1/messages/batches', {}],
    ['another type of body', 'POST', '/v1/messages', { 'content-type': 'text/plain' }],
    ['a query', 'GET', '/v1/messages?beta=true', {}],
    ['a path that cannot be read', 'GET', '/v1/messages/%E0%A4%A', {}],
  ])('below /v1/messages an error has the form of Anthropic: %s', async (_, method, path, headers) => {
    const answer = await fetch(`${on.url}${path}`, { method, headers, ...(method === 'POST' && { body: '{}' }) });
    expect(await answer.json()).toEqual({
      type: 'error',
      error: { type: expect.stringMatching(/_error$/), message: expect.any(String) },
    });
    // a path that only begins with the same letters is none of it
    expect(await (await fetch(`${on.url}/v1/messagesX`)).json()).toEqual({
      error: { message: expect.any(String), type: 'invalid_request_error', param: null, code: null },
    });
  });
  test('every answer has an id of its own', async () => {
    const ids = new Set<string | null>();
    for (const path of ['/health', '/v1/nothing', '/status'])
      ids.add((await fetch(`${on.url}${path}`)).headers.get('x-request-id'));
    ids.add((await on.post('/v1/completions', '{')).headers.get('x-request-id'));
    expect([...ids].every((id) => id?.startsWith('req_'))).toBe(true);
    expect(ids.size).toBe(4);
  });
  test.each([
    ['a request line that is none', 'nonsense\r\n\r\n', 400, 'the request is not one of HTTP/1.1'],
    [
      'headers that are too long',
      `GET /health HTTP/1.1\r\nHost: localhost\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`,
      431,
      'the headers must be at most 16384 bytes together, got more',
    ],
    ['no host', 'GET /health HTTP/1.1\r\nConnection: close\r\n\r\n', 400, "the header 'host' is expected, got none"],
  ])('%s is told in a sentence, with an id', async (_, request, status, message) => {
    const { head, ...answer } = await raw(request);
    expect([answer.status, answer.json.error.message]).toEqual([status, message]);
    expect(head).toMatch(/^x-request-id: req_/im);
  });
  test('half a request is told what time it had', async () => {
    const quick = await serve({ limits: { receiveMs: 200 } }),
      { head, status, json } = await raw('POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n', quick, true);
    expect([status, json.error.message]).toEqual([
      408,
      'the request must have come within 200 milliseconds, got a part of it',
    ]);
    expect(head).toMatch(/^x-request-id: req_/im);
    await quick.server.close();
  });
  test.each([
    ['LOCALHOST:8080', 200],
    ['Localhost', 200],
    ['127.0.0.2:1', 200],
    ['[::1]:80', 200],
    ['localhost.example.org', 403],
    ['127.0.0.1.example.org', 403],
    ['1127.0.0.1', 403],
  ])('as the host %s', async (host, status) => {
    expect((await raw(`GET /health HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)).status).toBe(status);
  });
  test.each([
    ['{"prompt": "a", "__proto__": {"max_tokens": 1}}', '__proto__'],
    ['{"prompt": "a", "x": [{"constructor": {"prototype": {}}}]}', 'constructor.prototype'],
  ])('%s is refused by its key', async (body, key) => {
    const { status, json } = await on.post('/v1/completions', body);
    expect([status, json.error.message]).toEqual([
      400,
      `the body must have no key '${key}', which would change how objects behave`,
    ]);
  });
  test('128 prompts, of one request or of as many on a connection, warn of nothing', async () => {
    const { status } = await on.post('/v1/completions', { prompt: Array(128).fill('a'), max_tokens: 1 });
    expect(status).toBe(200);
    expect(warnings).toEqual([]);
  });
});

describe('prompts that are never to end', () => {
  test('are refused before they are read', async () => {
    const few = await serve({ limits: { maxPromptTokens: 100 } }),
      block = { policy: 'streaming', budget: 32, block: 16, max_tokens: 1 },
      { ids } = (await embedded()).tokenizer.encode('The river was wide. '.repeat(40));
    for (const prompt of ['The river was wide. '.repeat(40), 'a'.repeat(1000), ids, [ids.slice(0, 101)]]) {
      const { status, json } = await few.post('/v1/completions', { prompt, ...block });
      expect([status, json.error.code]).toEqual([400, 'context_length_exceeded']);
      expect(json.error.message).toContain('the prompt must fit the 100 tokens that this server reads of one');
    }
    expect((await few.post('/v1/completions', { prompt: ids.slice(0, 100), ...block })).status).toBe(200);
    const chat = await few.post('/v1/chat/completions', {
      messages: [{ role: 'user', content: 'a'.repeat(1000) }],
      ...block,
    });
    expect([chat.status, chat.json.error.param]).toEqual([400, 'messages']);
    await few.server.close();
  });
  test('one long text at most is read in a turn of the event loop, whatever is sent', async () => {
    const model = await embedded();
    let [turn, last, inTurn, most, begun] = [0, -1, 0, 0, 0];
    const tick = (): void => {
      turn++;
      ticking = setImmediate(tick);
    };
    let ticking = setImmediate(tick);
    /** Parts of long texts, which are what takes time: a part is bounded by tests of the tokenizer. */
    const counted: typeof model.tokenizer.encodeParts = function* (text, options) {
      begun++;
      const parts = model.tokenizer.encodeParts(text, options);
      for (;;) {
        if (text.length > 2 ** 14) {
          inTurn = turn === last ? inTurn + 1 : 1;
          [last, most] = [turn, Math.max(most, inTurn)];
        }
        const part = parts.next();
        if (part.done) return;
        yield part.value;
      }
    };
    const slow = await serve({ model: { ...model, tokenizer: { ...model.tokenizer, encodeParts: counted } } });
    const texts = fc
      .tuple(
        fc.constantFrom(' ', 'a', '</s>', '\n', 'é', '文', 'The river. ', '\uD800', '1'),
        fc.integer({ min: 1, max: 36_000 }),
      )
      .map(([unit, length]) => unit.repeat(Math.ceil(length / unit.length)).slice(0, 36_000));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(texts, fc.array(texts, { minLength: 1, maxLength: 5 })), { minLength: 2, maxLength: 8 }),
        async (all) => {
          const statuses = await Promise.all(
            all.map(async (prompt, i) =>
              typeof prompt === 'string' && i % 2 === 1
                ? (
                    await slow.post('/v1/chat/completions', {
                      messages: [{ role: 'user', content: prompt }],
                      max_tokens: 0,
                    })
                  ).status
                : (
                    await slow.post('/v1/completions', {
                      prompt,
                      max_tokens: 0,
                      policy: 'streaming',
                      budget: 64,
                      block: 256,
                    })
                  ).status,
            ),
          );
          expect(statuses.every((status) => status === 200 || status === 400)).toBe(true);
        },
      ),
      { numRuns: 3 },
    );
    clearImmediate(ticking);
    expect(begun).toBeGreaterThan(5);
    expect(most).toBeLessThanOrEqual(2); // that of a text that ends, and that of the next one
    await slow.server.close();
  });
});
