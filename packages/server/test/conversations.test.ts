import {
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inTurn } from '@kv/model-testing/in-turn';
import { Chat, loadModel, Sequence } from '@kv/models';
import type { Budget } from '@kv/models';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import type { ConversationStore } from '../src/index.ts';
import { ConversationFolder } from '../src/run/conversation-folder.ts';
import { NamedConversations } from '../src/run/named-conversations.ts';
import { seal } from '../src/run/saved-conversation.ts';
import { embedded, serve } from './serve.ts';
import type { Serving } from './serve.ts';

type Message = { readonly role: string; readonly content: string };
interface Way {
  readonly policy?: string;
  readonly budget?: Budget;
  readonly block?: number;
  readonly every?: number;
}

/** Memory that holds one conversation, and not two. */
const SMALL = 3_900_000;
const folders: string[] = [];
const folder = (): string => {
  folders.push(mkdtempSync(join(tmpdir(), 'kv-conversations-')));
  return folders.at(-1)!;
};
afterAll(() => {
  for (const each of folders) rmSync(each, { recursive: true, force: true });
});

const until = async (holds: () => boolean): Promise<void> => {
  for (let i = 0; i < 2000 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(holds()).toBe(true);
};

const LINES = [
  'The river was wide. The secret code is: XK7M9P2Q.',
  'The boys walked to Paris, and the river was',
  'Paris is the capital of',
  'The password is: hunter22. The boys walked',
  'They had walked for',
  'The code, the river, and the wide',
];
const line = (turn: number): string => LINES[turn % LINES.length];
const NEW = 6;

const WAYS: readonly Way[] = [
  {},
  { policy: 'streaming', budget: 32 },
  { policy: 'streaming', budget: 32, block: 8 },
  { policy: 'snapkv(window=8)', budget: 40 },
  { policy: 'snapkv(window=8)', budget: 40, block: 16 },
  { policy: 'h2o', budget: 40 },
  { policy: 'h2o', budget: 40, block: 8, every: 3 },
  { policy: 'taFast', budget: 48 },
  { policy: 'taFast', budget: 48, block: 8 },
];

/** Where the library stands after an answer. */
interface Standing {
  readonly sequence: Sequence;
  readonly unread: readonly number[];
  readonly tail: string;
}

/**
 * The answers of the library's sequences, turn by turn: each goes on from where one of its own history stood, evicts what
 * the answer had added, reads what follows, and decodes. It knows nothing of how a server finds a cache.
 */
class Library {
  readonly #way: Way;
  readonly #stood = new Map<string, Standing[]>();
  constructor(way: Way) {
    this.#way = way;
  }

  /**
   * Returns the answers that are right where this many tokens were in a cache: one, unless a history was read in several
   * ways that left as many.
   */
  async answers(messages: readonly Message[], reused: number): Promise<readonly string[]> {
    const from: Standing[] = reused === 0 ? [{ sequence: new Sequence(await embedded()), unread: [], tail: '' }] : [];
    let at = 0;
    for (let i = messages.length - 2; i > 0 && from.length === 0; i -= 2) {
      from.push(...this.#at(messages.slice(0, i + 1)).filter(({ sequence }) => sequence.progress.length === reused));
      at = i + 1;
    }
    return Promise.all(from.map(async (each) => this.#answer(messages, each, at)));
  }

  #at(messages: readonly Message[]): Standing[] {
    const key = JSON.stringify(messages);
    if (!this.#stood.has(key)) this.#stood.set(key, []);
    return this.#stood.get(key)!;
  }

  async #answer(
    messages: readonly Message[],
    { sequence: before, unread, tail }: Standing,
    at: number,
  ): Promise<string> {
    const { policy, budget, block, every } = this.#way,
      { tokenizer, config } = await embedded(),
      whole = messages.map(({ role, content }, i) => (role === 'user' && i > 0 ? `\n${content}` : content)),
      text = whole.slice(at).join('').slice(tail.length),
      ids = [...unread, ...tokenizer.encode(text, { special: at === 0, untrusted: [[0, text.length]] }).ids],
      sequence = at === 0 ? before : before.fork();
    if (at > 0 && policy !== undefined) await sequence.evict(policy, budget!);
    await sequence.prefill(ids, { policy, budget, block });
    let said = '',
      fed = '';
    const end = (unread: readonly number[], tail: string): string => {
      const answer = said.slice(0, said.length - tail.length);
      this.#at([...messages, { role: 'assistant', content: answer }]).push({ sequence, unread, tail });
      return answer;
    };
    for (let made = 1; ; made++) {
      const token = await sequence.next();
      if (config.eosIds.includes(token)) return end([], '');
      [fed, said] = [said, said + tokenizer.decode([token])];
      const [, ...after] = said.split('\n');
      if (after.length > 0) {
        if (said.endsWith('\n') && after.length === 1) return end([token], '\n');
        const answer = said.split('\n')[0];
        said = answer;
        return fed === answer ? end([], '') : answer;
      }
      if (made === NEW) return end([token], '');
      await sequence.step(token, every);
    }
  }

  destroy(): void {
    for (const { sequence } of [...this.#stood.values()].flat()) sequence.destroy();
  }
}

/** A conversation with a server. */
class Talk {
  readonly messages: Message[] = [];
  /** Tokens read and reused by each turn. */
  readonly read: { readonly read: number; readonly reused: number }[] = [];
  readonly #way: Way;
  constructor(way: Way) {
    this.#way = way;
  }
  async say(on: Serving, content: string): Promise<string> {
    this.messages.push({ role: 'user', content });
    const { status, json } = await on.post('/v1/chat/completions', {
      messages: this.messages,
      max_tokens: NEW,
      temperature: 0,
      ...this.#way,
    });
    expect(json.error?.message).toBe(undefined);
    expect(status).toBe(200);
    const { prompt_tokens: all, prompt_tokens_details: details } = json.usage;
    this.read.push({ read: all - details.cached_tokens, reused: details.cached_tokens });
    this.messages.push({ role: 'assistant', content: json.choices[0].message.content });
    return json.choices[0].message.content;
  }
  /** Says the first line that is answered by more than the end of the line, after which `Chat` would go on. */
  async sayMore(on: Serving, turn: number): Promise<{ readonly asked: string; readonly said: string }> {
    for (let i = 0; ; i++) {
      const asked = line(turn + i),
        said = await this.say(on, asked);
      if (said.trim() !== '') return { asked, said };
      this.messages.splice(-2);
    }
  }
}

describe('a conversation goes on from its own cache', () => {
  for (const way of inTurn(WAYS, 3))
    test(`${way.policy ?? 'full'} ${way.block ?? 'whole'}: 12 turns are those of Chat, and only what is new is read`, async () => {
      const on = await serve(),
        chat = new Chat(await embedded(), { ...way, maxNewTokens: NEW }),
        talk = new Talk(way);
      for (let turn = 0; turn < 12; turn++) {
        const before = chat.sequence.progress.length;
        const { said, asked } = await talk.sayMore(on, turn),
          { text } = await chat.send(asked);
        expect([turn, said]).toEqual([turn, text]);
        expect(talk.read.at(-1)).toEqual({ reused: before, read: chat.sequence.progress.promptLength - before });
      }
      chat.destroy();
      await on.server.close();
    });
});

describe('branches', () => {
  test('a retry, another question and several answers are those of the conversation that they go on from', async () => {
    for (const way of [{}, { policy: 'h2o', budget: 40 }, { policy: 'taFast', budget: 48, block: 8 }]) {
      const on = await serve(),
        talk = new Talk(way);
      for (let turn = 0; turn < 4; turn++) await talk.say(on, line(turn));
      const at = [...talk.messages],
        first = await talk.say(on, line(4)),
        again = [...talk.messages];
      for (const [i, asked] of [line(4), line(0), line(4)].entries()) {
        const branch = new Talk(way);
        branch.messages.push(...at);
        const said = await branch.say(on, asked);
        expect(branch.read.at(-1)?.reused).toBe(talk.read.at(-1)?.reused);
        if (i !== 1) expect(said).toBe(first);
      }
      const { json } = await on.post('/v1/chat/completions', {
        ...way,
        messages: again.slice(0, -1),
        n: 3,
        temperature: 0,
        max_tokens: NEW,
      });
      for (const { message } of json.choices) expect(message.content).toBe(first);
      await on.server.close();
    }
  });
});

describe('a folder', () => {
  test('conversations go on after a restart, and where memory holds one of them', async () => {
    for (const [way, memory] of inTurn(
      [
        [WAYS[0], SMALL],
        [WAYS[4], 3_300_000],
        [WAYS[6], 3_300_000],
        [WAYS[8], 3_300_000],
      ] as const,
      2,
    )) {
      const conversations = { folder: folder() },
        alone = await serve(),
        expected = [new Talk(way), new Talk(way)];
      for (let turn = 0; turn < 6; turn++)
        for (const [i, talk] of expected.entries()) await talk.say(alone, line(turn + 2 * i));
      await alone.server.close();
      let on = await serve({ conversations, memory, limits: { part: 16, running: 1 } });
      const talks = [new Talk(way), new Talk(way)];
      for (let turn = 0; turn < 6; turn++) {
        if (turn === 3) {
          await on.server.close();
          on = await serve({ conversations, memory, limits: { part: 16, running: 1 } });
        }
        for (const [i, talk] of talks.entries()) await talk.say(on, line(turn + 2 * i));
      }
      for (const [i, { messages, read }] of talks.entries()) {
        expect(messages).toEqual(expected[i].messages);
        expect(read).toEqual(expected[i].read);
      }
      const { conversations: counts } = await (await fetch(`${on.url}/status`)).json();
      expect(counts.dropped).toBeGreaterThan(0);
      expect(counts.loaded).toBeGreaterThan(1);
      expect([counts.reread, counts.failed]).toEqual([0, 0]);
      await on.server.close();
    }
  });
});

/** A store in memory, as several servers share one. */
const shared = (): ConversationStore & { readonly files: Map<string, Uint8Array> } => {
  const files = new Map<string, Uint8Array>();
  return {
    files,
    get: async (key) => files.get(key),
    put: async (key, bytes) => void files.set(key, bytes.slice()),
    delete: async (key) => void files.delete(key),
  };
};

describe('a store', () => {
  const way = { policy: 'h2o', budget: 40, block: 8 } as const;

  test('another server goes on with every conversation of one that is gone, with the same tokens', async () => {
    const alone = await serve(),
      expected = new Talk(way),
      store = shared(),
      first = await serve({ conversations: store }),
      second = await serve({ conversations: store }),
      talk = new Talk(way);
    for (let turn = 0; turn < 6; turn++) await expected.say(alone, line(turn));
    for (let turn = 0; turn < 6; turn++) {
      await talk.say(turn % 2 === 0 ? first : second, line(turn)); // neither is closed before the other goes on
      await until(() => store.files.size === Math.min(2, turn + 1));
    }
    expect([talk.messages, talk.read]).toEqual([expected.messages, expected.read]);
    for (const { server } of [alone, first, second]) await server.close();
  });

  test('damaged and forged files are dropped with a line in the log, and the conversation is read again', async () => {
    const store = shared(),
      on = await serve({ conversations: store }),
      talk = new Talk(way);
    await talk.say(on, line(0));
    await until(() => store.files.size === 1);
    const [[name, file]] = store.files,
      { messages } = talk;
    await on.server.close();
    const fresh = await serve(),
      other = new Talk(way);
    other.messages.push(...messages);
    const reread = await other.say(fresh, line(1));
    await fresh.server.close();
    const seed = fc.record({ at: fc.nat(), to: fc.integer({ min: 1, max: 255 }) }),
      damage = fc.oneof(
        fc.record({ cut: fc.nat(file.length - 1) }),
        fc.record({ longer: fc.integer({ min: 1, max: 64 }) }),
        fc.record({ bytes: fc.array(seed, { minLength: 1, maxLength: 4 }), sealed: fc.boolean() }),
      );
    const again = await serve({ conversations: store, memory: 3_300_000, limits: { part: 16, running: 1 } });
    await fc.assert(
      fc.asyncProperty(damage, async (how) => {
        let bad: Uint8Array = file.slice();
        if ('cut' in how) bad = bad.slice(0, how.cut);
        else if ('longer' in how) bad = Buffer.concat([bad, new Uint8Array(how.longer)]);
        else {
          // of the head and the header, where bounds are, as often as of the numbers
          for (const { at, to } of how.bytes) bad[at % (at % 2 === 0 ? bad.length : 4096)] ^= to;
          if (how.sealed) await seal(bad as Uint8Array<ArrayBuffer>);
        }
        store.files.clear();
        store.files.set(name, bad);
        const lines = again.lines.length,
          third = new Talk(way);
        third.messages.push(...messages);
        const said = await third.say(again, line(1)),
          refused = again.lines.slice(lines).some(({ level }) => Number(level) === 40);
        if (third.read[0].reused === 0) expect([said, refused]).toEqual([reread, true]);
        else expect('sealed' in how && how.sealed).toBe(true); // numbers that may be
        // drops it from memory
        await until(() => store.files.size > 0);
        await new Talk({}).say(again, `${line(1)} ${line(2)} ${line(3)} ${line(4)} ${line(5)} ${line(0)} ${line(1)}`);
      }),
      { numRuns: 10 },
    );
    expect(
      (await again.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'a' }], max_tokens: 2 })).status,
    ).toBe(200);
    await again.server.close();
  });

  test('what a conversation has protected stays so on another server, for requests that name it no more', async () => {
    const store = shared(),
      body = { policy: 'streaming(sinks=1)', budget: 32, max_tokens: 4, temperature: 0 },
      talk: Message[] = [];
    for (const kv of [{ protect: ['XK7M9P2Q'] }, undefined, undefined]) {
      const on = await serve({ conversations: store });
      talk.push({ role: 'user', content: `${line(talk.length)} ${line(talk.length + 1)}` });
      const { json } = await on.post('/v1/chat/completions', { ...body, messages: talk, ...(kv && { kv }) });
      expect(json.usage.kv.tokens.reused > 0).toBe(kv === undefined);
      talk.push(json.choices[0].message);
      const { policy, budget } = body,
        { json: why } = await on.post('/v1/kv/why', { policy, budget, messages: talk, text: 'XK7M9P2Q' });
      expect(why.places[0].kept).toBe(1);
      await on.server.close();
    }
  });

  test('one that fails delays no answer', async () => {
    const fails = async (): Promise<never> => {
        throw new Error('unreachable');
      },
      on = await serve({ conversations: { get: fails, put: fails, delete: fails } }),
      talk = new Talk(way);
    for (let turn = 0; turn < 3; turn++) await talk.say(on, line(turn));
    expect(talk.read[2].reused).toBeGreaterThan(0);
    expect(on.lines.some(({ level }) => Number(level) === 40)).toBe(true);
    await on.server.close();
  });

  test('a folder has its bounds, and leaves other files and links alone', async () => {
    const at = folder(),
      name = (i: number): string => String(i).repeat(64),
      of = (key: string): string => join(at, `${key}.conversation`);
    writeFileSync(join(at, 'mine.txt'), 'mine');
    writeFileSync(join(at, 'secret'), 'secret');
    symlinkSync(join(at, 'secret'), of(name(9)));
    const store = new ConversationFolder(at, { bytes: 100, age: 60_000 });
    expect(await store.get(name(9))).toBe(undefined);
    for (const i of [1, 2, 3]) await store.put(name(i), new Uint8Array(40).fill(i));
    expect(await store.get(name(1))).toBe(undefined);
    expect((await store.get(name(2)))?.[0]).toBe(2);
    await store.put(name(4), new Uint8Array(40)); // 3 was used before 2
    expect(await store.get(name(3))).toBe(undefined);
    await store.put(name(5), new Uint8Array(101));
    expect(await store.get(name(5))).toBe(undefined);
    await expect(store.delete(`../${name(1)}`)).rejects.toThrow('64 hexadecimal digits');
    expect(store.held).toEqual({ bytes: 80, entries: 2 });
    utimesSync(of(name(2)), 0, 0);
    const later = new ConversationFolder(at, { bytes: 100, age: 60_000 });
    expect(await later.get(name(2))).toBe(undefined);
    expect((await later.get(name(4)))?.length).toBe(40);
    expect(readdirSync(at).sort()).toEqual([
      `${name(4)}.conversation`,
      `${name(9)}.conversation`,
      'mine.txt',
      'secret',
    ]);
    expect(statSync(of(name(4))).mode & 0o077).toBe(0);
  });

  test('conversations are remembered by the ids of their answers, in a store for longer', async () => {
    const store = shared(),
      one = new NamedConversations<{ readonly messages: readonly string[] }>(store),
      two = new NamedConversations<{ readonly messages: readonly string[] }>(store);
    one.name('resp_1', { messages: ['a'] });
    expect(await one.named('resp_1')).toEqual({ messages: ['a'] });
    expect(await two.named('resp_1')).toEqual({ messages: ['a'] });
    for (const id of ['resp_2', '../resp_1', '']) await expect(two.named(id)).rejects.toMatchObject({ status: 404 });
    await expect(two.named('resp_2')).rejects.toThrow("send the whole conversation as 'input'");
    one.forget('resp_1');
    two.forget('resp_1');
    await expect(one.named('resp_1')).rejects.toMatchObject({ status: 404 });
    // a damaged one is deleted, and told once
    const told: unknown[] = [];
    for (const damage of [(bytes: Uint8Array) => bytes.slice(0, -3), (bytes: Uint8Array) => bytes.fill(65, -3)]) {
      one.name('resp_3', { messages: ['b'] });
      await until(() => store.files.size === 1);
      for (const [key, bytes] of store.files) store.files.set(key, damage(bytes.slice()));
      const four = new NamedConversations<string>(store, (cause) => told.push(cause));
      await expect(four.named('resp_3')).rejects.toMatchObject({ status: 404 });
      await expect(four.named('resp_3')).rejects.toMatchObject({ status: 404 });
      expect(store.files.size).toBe(0);
    }
    expect(told).toHaveLength(2);
    const three = new NamedConversations<string>();
    for (let i = 0; i < 20; i++) three.name(`${i}`, 'x'.repeat(2 ** 20));
    await expect(three.named('0')).rejects.toMatchObject({ status: 404 });
    expect((await three.named('19')).length).toBe(2 ** 20);
  });
});

test('whatever is retried, edited or branched, each answer is that of its own turns, from where the server says it went on', async () => {
  const step = fc.record({ node: fc.nat(), asked: fc.nat({ max: LINES.length - 1 }), restart: fc.boolean() }),
    ways = [...WAYS, { policy: 'streaming', budget: '50%' as const, every: 4 }];
  let continued = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...ways),
      fc.constantFrom(SMALL, 256 * 2 ** 20),
      fc.array(step, { minLength: 4, maxLength: 9 }),
      async (way, memory, steps) => {
        const library = new Library(way),
          options = { memory, conversations: { folder: folder() }, limits: { part: 16, running: 1 } };
        let on = await serve(options);
        const nodes: (readonly Message[])[] = [[]];
        for (const { node, asked, restart } of steps) {
          if (restart && memory === SMALL) {
            await on.server.close();
            on = await serve(options);
          }
          const talk = new Talk(way);
          talk.messages.push(...nodes[node % nodes.length]);
          const said = await talk.say(on, line(asked)),
            { reused } = talk.read[0];
          // a full cache may begin with another's prompt too, in whole parts
          const right = await library.answers(talk.messages.slice(0, -1), way.policy === undefined ? 0 : reused);
          expect(right).toContain(said);
          if (reused > 0) continued++;
          nodes.push(talk.messages);
        }
        library.destroy();
        await on.server.close();
      },
    ),
    { numRuns: 3, endOnFailure: true },
  );
  expect(continued).toBeGreaterThan(5);
});

test('an agent reads the results of its calls alone, however its client writes the calls again', async () => {
  const chatTemplate = readFileSync(new URL('../../model-testing/fixtures/hermes.jinja', import.meta.url), 'utf8'),
    model = await loadModel('embedded', { chatTemplate }),
    on = await serve({ model }),
    city = { type: 'object', properties: { city: { type: 'string', enum: ['Paris'] } }, required: ['city'] },
    tools = [{ type: 'function', function: { name: 'weather', parameters: city } }],
    way = { policy: 'h2o', budget: 300, block: 64 },
    messages: object[] = [{ role: 'user', content: 'The weather of Paris' }];
  let held = 0;
  for (let turn = 0; turn < 4; turn++) {
    const { json } = await on.post('/v1/chat/completions', {
      ...way,
      messages,
      tools,
      tool_choice: turn % 2 === 0 ? 'required' : 'auto',
      parallel_tool_calls: false,
      max_tokens: turn % 2 === 0 ? 120 : 6,
      temperature: 0,
    });
    expect(json.error).toBe(undefined);
    const { prompt_tokens: all, completion_tokens: made, prompt_tokens_details: details } = json.usage,
      [{ message }] = json.choices;
    if (turn > 0) expect([turn, details.cached_tokens >= held]).toEqual([turn, true]);
    held = all + made - 1;
    const calls: { id: string; function: { name: string; arguments: string } }[] = message.tool_calls ?? [];
    if (turn % 2 === 0) expect([message, calls.length]).toEqual([message, 1]);
    messages.push({
      ...message,
      ...(calls.length > 0 && {
        tool_calls: calls.map((call) => ({
          ...call,
          function: { ...call.function, arguments: JSON.stringify(JSON.parse(call.function.arguments), null, 2) },
        })),
      }),
    });
    messages.push(
      ...(calls.length > 0
        ? calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'wide' }))
        : [{ role: 'user', content: 'The river' }]),
    );
  }
  await on.server.close();
  model.destroy();
});

test('a conversation under a budget goes on past the context, as Chat does', async () => {
  const model = await loadModel(fileURLToPath(new URL('../../model-testing/fixtures/llama', import.meta.url))),
    way = { policy: 'h2o', budget: 24, every: 4 },
    on = await serve({ model, limits: { part: 16, maxPromptTokens: 10_000 } }),
    chat = new Chat(model, { ...way, maxNewTokens: NEW }),
    talk = new Talk(way);
  for (let turn = 0; chat.sequence.progress.length <= model.config.maxPositions + 20; turn++) {
    const { said, asked } = await talk.sayMore(on, turn);
    expect((await chat.send(asked)).text).toBe(said);
    expect(talk.read.at(-1)!.read).toBeLessThan(70);
  }
  // what cannot go on from its cache says so, why, and what would read it
  const ask = (more: object) =>
      on.post('/v1/chat/completions', {
        ...{ ...way, max_tokens: 2, messages: [...talk.messages, { role: 'user', content: 'a' }], ...more },
      }),
    left = await ask({ kv: { protect: [[30, 34]] } });
  expect([left.status, left.json.error.param], left.json.error.message).toEqual([400, 'block']);
  expect(left.json.error.message).toMatch(
    /context of \d+ tokens, got \d+: it would be read again from its start, since the cache of this conversation has dropped what 'kv.protect' names; with 'block'/,
  );
  expect((await ask({ policy: 'streaming' })).json.error.message).toContain(
    'the cache of this conversation is gone, or',
  );
  expect((await ask({ policy: 'streaming', block: 16 })).status).toBe(200);
  chat.destroy();
  await on.server.close();
  model.destroy();
});
