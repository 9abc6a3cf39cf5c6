import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { slotBytes, slotSizes, snapshotsOfPrefix, commonHeads } from '@kv/engine';
import { KvError } from '@kv/core';
import { generate, loadModel, Sequence } from '@kv/models';
import type { CacheForm } from '@kv/models';
import { catalogue, parsePolicy } from '@kv/policies';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  answerBytes,
  decodeSlots,
  protectingPolicy,
  requestBytes,
  sequenceBytes,
  storedSlots,
} from '../src/run/memory-estimate.ts';
import { compile } from '@kv/core/engine';
import type { AnswerLimits } from '../src/run/answer-choice.ts';
import { embedded, serve } from './serve.ts';
import type { Serving } from './serve.ts';

const fixture = (name: string): string =>
    fileURLToPath(new URL(`../../model-testing/fixtures/${name}`, import.meta.url)),
  LLAMA = fixture('llama'),
  /** Most of its layers carry a state instead of slots. */
  HYBRID = fixture('lfm2'),
  /** Most of its layers read the slots of others. */
  SHARED = fixture('gemma4');

const words = (n: number, by = 1): string =>
  Array.from({ length: n }, (_, i) => ['river', 'boys', 'code', 'Paris', 'walked', 'wide'][(i * by) % 6]).join(' ');
const MiB = 2 ** 20;

const until = async (holds: () => boolean): Promise<void> => {
  for (let i = 0; i < 6000 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(holds()).toBe(true);
};
/** Whether everything that requests held has been released. */
const empty = ({ server }: Serving): boolean =>
  server.memory.sequences === 0 && server.memory.promised === server.memory.scratch;
const exceeded = async ({ url }: Serving): Promise<string | undefined> =>
  (await (await fetch(`${url}/metrics`)).text())
    .split('\n')
    .find((line) => line.startsWith('kv_promise_exceeded_total'));

describe('several at once', () => {
  test('everybody gets the tokens that they get alone, through batches, parts and policies', async () => {
    const on = await serve({ limits: { part: 16 } }),
      model = await embedded();
    const asked = [
      {},
      { policy: 'snapkv(window=4)', budget: '50%' },
      { policy: 'tova', budget: 24, block: 16 },
      { policy: 'streaming', budget: 16, block: 8, every: 4 },
      { policy: 'pyramidal(window=4)', budget: '50%' },
    ].flatMap((way) => [20, 45].map((n) => ({ ...way, prompt: words(n, 5), max_tokens: 12, temperature: 0 })));
    const post = (body: object) => on.post('/v1/completions', body);
    const together = await Promise.all(asked.map(post));
    for (const [i, body] of asked.entries()) {
      expect(together[i].status).toBe(200);
      expect((await post(body)).json.choices).toEqual(together[i].json.choices);
    }
    // and those of the library, which reads a prompt in one part
    const { text } = await generate(model, { prompt: asked[0].prompt, maxNewTokens: 12, temperature: 0 });
    expect(together[0].json.choices[0].text).toBe(text);
    expect(await exceeded(on)).toBe('kv_promise_exceeded_total 0');
    await on.server.close();
    expect(empty(on)).toBe(true);
  });
  test('a short prompt does not wait for a long one', async () => {
    const on = await serve({ limits: { part: 16 } }),
      order: string[] = [];
    const long = on.post('/v1/completions', { prompt: words(800), max_tokens: 1 }).then(() => order.push('long'));
    await until(() => on.server.memory.promised > on.server.memory.scratch);
    await on
      .post('/v1/completions', { prompt: 'The river', max_tokens: 4, temperature: 0 })
      .then(() => order.push('short'));
    await long;
    expect(order).toEqual(['short', 'long']);
    await on.server.close();
  });
});

describe('one memory budget', () => {
  test('what a sequence holds stays within what is promised to it, in every form of its cache', async () => {
    const [whole, hybrid, shared] = [await embedded(), await loadModel(HYBRID), await loadModel(SHARED)],
      { config, cacheForms } = whole,
      texts = [
        'full',
        'snapkv(window=4)',
        'h2o',
        'tova',
        'streaming',
        'pyramidal(window=4)',
        'adaKV(snapkv(window=4))',
        'keydiff',
        'scissorhands',
        'snapkv(window=12)',
        'finch(delimiter=a)',
        'quest(slots=8,page=3)',
        'doubleSparsity(slots=8)',
        'cpe(budget=16,sinks=2,local=4)',
        'snapkv(window=64)',
        'streamingRerotated',
        'snapkv(window=8) | topK | rerotate',
        'kvzip | topK',
        'kvcompose',
        'crystalcache(recent=8)',
      ];
    const known = texts.filter((text) => {
      try {
        return parsePolicy(text) !== undefined;
      } catch {
        return false;
      }
    });
    expect(known.length).toBeGreaterThan(6);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(
          ...cacheForms.map((form) => [whole, form] as const),
          ...(['f32', 'q8'] as const).flatMap((form) => [[hybrid, form] as const, [shared, form] as const]),
        ),
        fc.constantFrom(...known),
        fc.integer({ min: 2, max: 90 }),
        fc.integer({ min: 0, max: 20 }),
        fc.oneof(
          fc.integer({ min: 12, max: 60 }),
          fc.integer({ min: 1, max: 100 }).map((percent) => `${percent}%` as const),
          fc.integer({ min: 12, max: 60 }).map((slots) => ({ slots })),
          fc.integer({ min: 1, max: 100 }).map((percent) => `${percent}% of f16` as const),
        ),
        fc.option(fc.integer({ min: 4, max: 50 }), { nil: undefined }),
        fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined }),
        fc.option(fc.integer({ min: 1, max: 90 }), { nil: undefined }),
        async ([model, cacheForm], text, tokens, more, asked, block, every, protect) => {
          // a question begins in it, and ends what is kept
          fc.pre(!text.startsWith('finch') || (model === whole && tokens > 40 && (block ?? protect) === undefined));
          const { config, tokenizer } = model,
            policy = parsePolicy(text),
            compiled = compile(policy),
            again = compiled.needs.some(({ cost, provide }) => cost === 'pass' && provide),
            viewed = compiled.hooks('view').length > 0,
            sizes = slotSizes(config, cacheForm),
            budget = typeof asked === 'object' ? { bytes: (asked.slots + 0.5) * sizes.bytesPerSlot } : asked,
            way = compiled.evicts
              ? { policy: compiled, budget, sizes, block, every }
              : viewed
                ? { policy: compiled }
                : {};
          const spans = compiled.evicts && protect !== undefined && protect <= tokens ? [[0, protect] as const] : [],
            stored = { config, cacheForm, tokenizer },
            limits = { maxNewTokens: more } as AnswerLimits;
          const held = protectingPolicy(way, spans);
          fc.pre(!again || 2 * (tokens + more) + 30 < config.maxPositions); // a second pass fits the context
          const promised = requestBytes({ sequencePolicy: held, limits, n: 1 }, stored, tokens),
            sequence = new Sequence(model, undefined, { cache: cacheForm, snapshots: snapshotsOfPrefix }),
            { ledger, slots } = sequence.memory;
          try {
            const ids = Array.from({ length: tokens }, (_, i) => (i * 31) % config.vocab);
            sequence.protect(spans);
            for await (const _ of sequence.prefillParts(ids, {
              ...(compiled.evicts && { policy, budget, block }),
              ...(viewed && { policy }),
              part: 16,
            }));
            expect(ledger.peakAllocated).toBeLessThanOrEqual(promised);
            // and what is promised to an answer once the prompt is read
            const left = slots.lengths().map((heads) => {
                const longest = Math.max(...heads);
                return longest + decodeSlots(held, longest, tokens, more);
              }),
              answer = Math.min(promised, answerBytes(stored, left, tokens + more, held, storedSlots(sequence)));
            ledger.forgetPeaks();
            for (let i = 0; i < more; i++)
              await sequence.step((i * 17) % config.vocab, compiled.evicts ? every : undefined);
            expect(ledger.peakAllocated).toBeLessThanOrEqual(answer);
          } catch (cause) {
            // a budget that cannot hold what is forced, or no question
            if (!KvError.is(cause) || !['budget', 'questionAttention'].includes(cause.at)) throw cause;
          } finally {
            sequence.destroy();
          }
        },
      ),
      {
        numRuns: 60,
        examples: [
          [[whole, 'q8'], 'streaming', 352, 1, '10%', 16, undefined, 250],
          [[whole, 'f32'], 'kvzip | topK', 200, 0, '25%', undefined, undefined, undefined],
          [[whole, 'q8'], 'kvcompose', 200, 0, '25%', undefined, undefined, undefined],
          [[whole, 'q8'], 'streamingRerotated', 282, 4, '60%', undefined, undefined, undefined],
          [[whole, 'f32'], 'snapkv(window=8) | topK | rerotate', 282, 4, '70%', undefined, undefined, undefined],
          [[shared, 'q8'], 'scissorhands', 43, 1, 12, undefined, undefined, undefined],
          [[shared, 'q8'], 'snapkv(window=64)', 26, 25, '50%', undefined, undefined, undefined],
        ],
      },
    );
    // no more than that, so that more prompts fit
    const full = (cacheForm: CacheForm): number =>
        sequenceBytes({ config, cacheForm }, Array(config.layers).fill(500), 500, {}),
      slot = (cacheForm: CacheForm): number => slotBytes(cacheForm, commonHeads(config).headDim, true);
    for (const form of cacheForms) expect(full(form) / full('f32')).toBeCloseTo(slot(form) / slot('f32'));
  });
  test('nor does a server promise too little to what is protected, read again or moved, of one turn or two', async () => {
    const on = await serve({ protect: ['system'], limits: { part: 16 } }),
      prompt = words(280, 5),
      system = { role: 'system', content: words(150, 5) },
      asked = { role: 'user', content: words(60) };
    const ways = [
      { policy: 'streaming', budget: '10%', block: 16, kv: { protect: [[0, 250]] } },
      { policy: 'kvzip | topK', budget: '25%' },
      { policy: 'crystalcache(recent=8)', budget: '25%', every: 2 },
      { policy: 'streamingRerotated', budget: '60%', n: 2 },
    ];
    for (const way of ways) {
      const { status, json } = await on.post('/v1/completions', { prompt, max_tokens: 4, ...way });
      expect([status, json.error]).toEqual([200, undefined]);
    }
    for (const { kv: _, ...way } of ways) {
      const turn = (messages: readonly object[]) =>
          on.post('/v1/chat/completions', { messages, max_tokens: 4, temperature: 0, ...way }),
        { status, json } = await turn([system, asked]);
      expect([status, json.error]).toEqual([200, undefined]);
      const next = await turn([system, asked, json.choices[0].message, asked]);
      expect([next.status, next.json.error]).toEqual([200, undefined]);
      expect(next.json.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(0);
    }
    expect(await exceeded(on)).toBe('kv_promise_exceeded_total 0');
    await on.server.close();
    expect(empty(on)).toBe(true);
  });
  test('where layers carry states, answers count them, and prompts begin with those of a shared prefix', async () => {
    const model = await loadModel(HYBRID),
      on = await serve({ model, limits: { part: 8 } }),
      prompt = (end: string): string => `${'abcdefgh'.repeat(4)}${end}`,
      ask = (text: string) => on.post('/v1/completions', { prompt: text, max_tokens: 3, temperature: 0 });
    await ask(prompt('ab'));
    const { json } = await ask(prompt('cd')),
      alone = await generate(model, { prompt: prompt('cd'), maxNewTokens: 3 });
    expect(json.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(0);
    expect(json.choices[0].text).toBe(alone.text);
    expect(json.usage.cache.state_bytes).toBe(alone.report.cache.stateBytes);
    expect(alone.report.cache.stateBytes).toBeGreaterThan(0);
    expect(await exceeded(on)).toMatch(/ 0$/);
    await on.server.close();
    model.destroy();
  });
  test('a form that the model cannot have is refused before anything is served', async () => {
    const model = await loadModel(LLAMA);
    await expect(serve({ model, cache: 'q4' })).rejects.toThrow(
      "cache: q4 stores heads of a multiple of 32 channels, the model's have 16: use q8 or f16",
    );
    model.destroy();
  });
  test('what does not fit waits, and what finds no place to wait is told when to come again', async () => {
    const on = await serve({ memory: 6 * MiB, limits: { queue: 2, running: 4, part: 16 } });
    const ask = () => on.post('/v1/completions', { prompt: words(100), max_tokens: 60, temperature: 0 });
    const all = await Promise.all(Array.from({ length: 14 }, ask)),
      statuses = all.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    for (const { status, headers, json } of all)
      if (status === 429) {
        expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
        expect(json.error).toMatchObject({ type: 'rate_limit_error', code: 'queue_full' });
      }
    const { peak, limit } = on.server.memory;
    expect(peak).toBeLessThanOrEqual(limit);
    const never = await on.post('/v1/completions', { prompt: words(1500), max_tokens: 100 });
    expect([never.status, never.json.error.code]).toEqual([400, 'context_length_exceeded']);
    expect((await ask()).status).toBe(200);
    await on.server.close();
    expect(empty(on)).toBe(true);
  });
  test('at the same memory a budget of 25 % carries more answers at once than the full cache', async () => {
    const carried = async (way: object): Promise<number> => {
      const on = await serve({ memory: 5 * MiB, limits: { queue: 64, running: 32, part: 64 } });
      let most = 0;
      const watch = setInterval(() => {
        most = Math.max(most, on.server.prompts.answering);
      }, 1);
      const ask = () => on.post('/v1/completions', { prompt: words(60), max_tokens: 16, temperature: 0, ...way });
      const all = await Promise.all(Array.from({ length: 8 }, ask));
      clearInterval(watch);
      expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200]));
      await on.server.close();
      return most;
    };
    const [full, bounded] = [await carried({}), await carried({ policy: 'streaming', budget: '25%', block: 32 })];
    expect(bounded).toBeGreaterThan(full);
    console.info(`answers at once in 5 MiB: full cache ${full}, 25 % ${bounded}`);
  });
  test('a prefix is read once, least recently used ones go first, and tokens stay the same to the bit', async () => {
    const on = await serve({ memory: 6 * MiB, limits: { part: 16, running: 4 } });
    const ask = (prompt: string) => on.post('/v1/completions', { prompt, max_tokens: 8, temperature: 0, logprobs: 3 });
    const system = words(60, 5),
      first = await ask(`${system} a`),
      [again, other] = [await ask(`${system} a`), await ask(`${system} b`)];
    const cached = ({ json }: typeof first): number => json.usage.prompt_tokens_details.cached_tokens;
    expect(cached(first)).toBe(0);
    expect(cached(again)).toBeGreaterThanOrEqual(48);
    expect(cached(again) % 16).toBe(0);
    expect(cached(other)).toBeGreaterThanOrEqual(48);
    expect(again.json.choices).toEqual(first.json.choices);
    for (let i = 0; i < 10; i++) await ask(`${i} ${words(80, 5)}`);
    expect(on.server.memory.conversations + on.server.memory.promised).toBeLessThanOrEqual(on.server.memory.limit);
    expect(cached(await ask(`${system} a`))).toBe(0);
    await on.server.close();
    expect([on.server.memory.conversations, empty(on)]).toEqual([0, true]);
  });
});

describe('it holds', () => {
  /** Requests in one write over a bare socket, which reads nothing. */
  const bare = ({ url }: Serving, ...bodies: readonly object[]): ReturnType<typeof connect> => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.pause();
    socket.on('error', () => {});
    const request = (text: string): string =>
      `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
    socket.write(bodies.map((body) => request(JSON.stringify(body))).join(''));
    return socket;
  };
  test('a client that goes frees everything, while waiting, while read, while answered', async () => {
    const on = await serve({ limits: { running: 1, part: 16 } });
    const long = { prompt: words(300), max_tokens: 3000, temperature: 2, stream: true };
    const sockets = [bare(on, long), bare(on, { ...long, stream: false }), bare(on, long)];
    await until(() => on.server.memory.sequences > 0);
    for (const socket of sockets) {
      socket.destroy();
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    await until(() => empty(on));
    await on.server.close();
  });
  test('a connection that closes ends all that was sent on it, whatever waits for what', async () => {
    const on = await serve({ limits: { running: 2, part: 16 } }),
      sum = (): number => Object.values(on.server.prompts).reduce((all, count) => all + count, 0);
    const way = fc.constantFrom({}, { policy: 'h2o', budget: 64 }, { policy: 'streaming', budget: 32, block: 16 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ stream: fc.boolean(), way }), { minLength: 1, maxLength: 30 }),
        fc.boolean(),
        async (bodies, begun) => {
          const long = { prompt: words(300), max_tokens: 3000, temperature: 2 };
          const socket = bare(on, ...bodies.map(({ stream, way: own }) => ({ ...long, stream, ...own })));
          await until(() => (begun ? on.server.prompts.answering : sum()) > 0);
          socket.destroy();
          await until(() => sum() === 0 && empty(on));
        },
      ),
      { numRuns: 6 },
    );
    await on.server.close();
  });
  test('whole answers that are not read are let go with their connection', async () => {
    const on = await serve({ limits: { readerMs: 200 } }),
      sockets = (): number => process.getActiveResourcesInfo().filter((each) => each === 'TCPSocketWrap').length,
      body = { prompt: words(150), max_tokens: 1, echo: true, logprobs: 20, n: 32 },
      before = sockets(),
      socket = bare(on, ...Array.from({ length: 5 }, () => body)); // more than a socket takes that nobody reads
    await until(() => sockets() === before + 2);
    await until(() => sockets() === before + 1 && empty(on));
    socket.destroy();
    await on.server.close();
  });
  test('a slow reader delays no other, and is dropped in the end', async () => {
    const on = await serve({ memory: 512 * MiB, limits: { ahead: 8, readerMs: 300, part: 16 } });
    const slow = bare(on, { prompt: words(5), n: 16, max_tokens: 1000, temperature: 2, stream: true, logprobs: 20 });
    await until(() => on.server.memory.sequences > 0);
    expect((await on.post('/v1/completions', { prompt: 'The river', max_tokens: 8 })).status).toBe(200);
    await until(() => empty(on));
    slow.destroy();
    await on.server.close();
  });
  test('a half-open connection is closed when its request does not come', async () => {
    const on = await serve({ limits: { receiveMs: 200 } }),
      socket = connect(Number(new URL(on.url).port), '127.0.0.1');
    socket.write('POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Le');
    let said = '';
    socket.on('data', (data) => {
      said += data.toString();
    });
    await new Promise((resolve) => socket.on('close', resolve));
    expect(said).toContain('HTTP/1.1 408');
    await on.server.close();
  });
  test('closing lets answers go on, then cuts them', async () => {
    for (const [grace, want] of [
      [60_000, 200],
      [0, 503],
    ] as const) {
      const on = await serve();
      const answer = on.post('/v1/completions', {
        prompt: words(20),
        max_tokens: grace ? 30 : 3000,
        temperature: 2,
        seed: 1,
      });
      await until(() => on.server.memory.sequences > 0);
      const closed = on.server.close(grace);
      expect((await answer).status).toBe(want);
      await closed;
      expect(empty(on)).toBe(true);
    }
  });
});

test('requests name the catalogue and what the command line gave, by the parser alone', async () => {
  const on = await serve({ registry: new Map([...catalogue].filter(([name]) => name !== 'knorm')) });
  const ask = (policy: string) =>
    on.post('/v1/completions', { prompt: words(20), max_tokens: 1, policy, budget: '50%' });
  expect([(await ask('keydiff')).status, (await ask('knorm')).status]).toEqual([200, 400]);
  await on.server.close();
});

test('its own policy may be text, by names of its registry; one that is none is refused as the parser does', async () => {
  const { server, post } = await serve({ policy: 'streaming(sinks=2) | topK', budget: 24 });
  const { json } = await post('/v1/completions', { prompt: 'a b c d e f g h i j k l', max_tokens: 1 });
  expect(json.kv.policy).toBe('streaming(sinks=2) ∘ topK');
  await server.close();
  await expect(serve({ policy: 'streaming | topk', budget: 24 })).rejects.toThrow('did you mean topK');
});
