import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { heldOf, heldPlaces, lineTurns, templateTurns } from '@kv/engine';
import { answerGrammar, Chat, generate, loadModel, type ChatTemplate, type Model, type Tokenizer } from '@kv/models';
import { writeTinyModel } from '@kv/model-testing';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const folder = (): string => mkdtempSync(join(tmpdir(), 'kv-chat-'));
const PLAIN =
  '{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}';
function withTemplate(at: string, template = PLAIN): string {
  const own = writeTinyModel(at);
  writeFileSync(join(own, 'chat_template.jinja'), template);
  return own;
}
async function templateOf(source: string): Promise<{ tokenizer: Tokenizer; template: ChatTemplate }> {
  const { tokenizer, chatTemplate } = await loadModel(withTemplate(join(folder(), 'own'), source));
  return { tokenizer, template: chatTemplate!()! };
}

let model: Model;
beforeAll(async () => {
  model = await loadModel(withTemplate(join(folder(), 'own')));
});
afterAll(() => model.destroy?.());

/** Slots of the longest head of any layer. */
const longest = ({ sequence }: Chat): number =>
  Math.max(
    ...sequence
      .kept()
      .flat()
      .map((row) => row.length),
  );

describe('Chat', () => {
  it('answers every message as a model that reads the whole conversation does', async () => {
    const message = fc.string({ unit: fc.constantFrom('a', 'é', '<', ' x', '</>'), minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(message, { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 1, max: 6 }),
        async (all, n) => {
          const chat = new Chat(model, { maxNewTokens: n });
          try {
            for (const [i, text] of all.entries()) {
              const { text: answer, tokens } = await chat.send(text);
              expect(chat.messages.slice(2 * i)).toEqual([
                { role: 'user', content: text },
                { role: 'assistant', content: answer },
              ]);
              const ids = chat.sequence.progress.text.ids.slice(0, chat.sequence.progress.promptLength);
              const once = await generate(model, { ids, maxNewTokens: n, stopAtEos: true });
              expect([tokens, answer]).toEqual([once.tokens, once.text]);
            }
          } finally {
            chat.destroy();
          }
        },
      ),
      { numRuns: 15 },
    );
  });

  it('streams what it answers, and holds its budget past the context', async () => {
    const chat = new Chat(model, { policy: 'streaming', budget: 48, maxNewTokens: 12 });
    for (let i = 0; i < 12; i++) {
      const answer = chat.send('Say what you know of the clocks, and then of April.');
      let streamed = '';
      for await (const { text } of answer) streamed += text;
      expect(streamed).toBe((await answer).text);
      expect(longest(chat)).toBe(48);
    }
    expect(chat.sequence.progress.length).toBeGreaterThan(model.config.maxPositions);
    chat.destroy();
  });

  it('reads a message longer than the context in blocks, also under a policy that looks at all layers at once', async () => {
    const chat = new Chat(model, { policy: 'knorm | perModel | topK', budget: 32, block: 16, maxNewTokens: 4 }),
      read: number[] = [];
    await chat.send('All of the clocks in April. '.repeat(20), { onRead: (tokens) => read.push(tokens) });
    expect(chat.sequence.progress.length).toBeGreaterThan(model.config.maxPositions);
    expect(read.slice(0, 3)).toEqual([16, 32, 48]);
    chat.destroy();
  });

  it('goes on after an answer that was left, and after a message whose reading was aborted', async () => {
    const chat = new Chat(model, { maxNewTokens: 8 });
    for await (const _ of chat.send('one')) break;
    expect(chat.messages).toHaveLength(2);
    const aborted = new AbortController();
    aborted.abort();
    expect((await chat.send('two', { signal: aborted.signal })).finish).toBe('aborted');
    expect(chat.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    const { tokens } = await chat.send('three');
    const ids = chat.sequence.progress.text.ids.slice(0, chat.sequence.progress.promptLength);
    expect(model.tokenizer.decode(ids)).toMatch(
      /^<user>one<\/><assistant>.+<\/><user>two<\/><assistant><\/><user>three/s,
    );
    expect(tokens).toEqual((await generate(model, { ids, maxNewTokens: 8, stopAtEos: true })).tokens);
    chat.destroy();
  });

  it('goes on after a message whose reading was aborted in its middle, having lost nothing', async () => {
    const words = 'All of the clocks in April were striking. '.repeat(8),
      whole = new Chat(model, { policy: 'streaming', budget: 48, block: 16, maxNewTokens: 4 });
    await whole.send(words);
    for (const [after, keeps] of [
      [16, { policy: 'streaming', budget: 48, block: 16 }],
      [64, { policy: 'knorm | perModel | topK', budget: 48, block: 16 }],
      [32, { policy: 'snapkv(window=4)', budget: 48, block: 16 }],
    ] as const) {
      const chat = new Chat(model, { ...keeps, maxNewTokens: 4 }),
        stop = new AbortController();
      const { finish } = await chat.send(words, {
        signal: stop.signal,
        onRead: (read) => {
          if (read >= after) stop.abort();
        },
      });
      expect(finish).toBe('aborted');
      expect(chat.sequence.progress.length).toBe(after);
      expect([...chat.sequence.progress.text.ids, ...chat.unread]).toEqual(
        whole.sequence.progress.text.ids.slice(0, after + chat.unread.length),
      );
      expect((await chat.send('and now?')).finish).not.toBe('aborted');
      chat.destroy();
    }
    // a signal that comes while a part is read
    const chat = new Chat(model, { maxNewTokens: 4 }),
      stop = new AbortController(),
      reading = chat.send('All of the clocks in April.', { signal: stop.signal }).then(({ finish }) => finish);
    setImmediate(() => stop.abort());
    expect(await reading).toBe('aborted');
    expect((await chat.send('and now?')).finish).not.toBe('aborted');
    for (const each of [chat, whole]) each.destroy();
  });

  it("has the policy's own cadence", async () => {
    const chat = new Chat(model, {
      policy: 'streaming(sinks=1) | topK | cadence(block=16,every=4)',
      budget: 32,
      maxNewTokens: 12,
    });
    expect(await chat.retention()).toMatchObject({ block: 16, every: 4 });
    const other = new Chat(model, { policy: 'streaming | cadence(every=4)', budget: 32, every: 2 });
    expect((await other.retention()).every).toBe(2);
    for (const each of [chat, other]) each.destroy();
  });

  it('refuses a second call while an answer is generated, and a bad policy or budget with nothing done', async () => {
    const chat = new Chat(model, { policy: 'nosuch', budget: 8 });
    await expect(chat.send('x')).rejects.toThrow('nosuch');
    expect(chat.messages).toEqual([]);
    chat.destroy();
    const two = new Chat(model, { maxNewTokens: 8 });
    const first = two.send('x'),
      reading = first[Symbol.asyncIterator]().next();
    await expect(two.send('y')).rejects.toThrow(/^chat: /);
    expect(() => two.clear()).toThrow(/^chat: /);
    await reading;
    await first;
    await expect(two.retain('knorm')).rejects.toThrow(/^budget: /);
    await expect(two.retain('knorm', model.config.maxPositions)).rejects.toThrow(/^budget: /);
    expect((await two.send('z')).finish).toBeDefined();
    expect(two.messages.map(({ content }) => content).filter((_, i) => i % 2 === 0)).toEqual(['x', 'z']);
    two.destroy();
  });

  it('goes on under another policy, having read the conversation under it, and starts over', async () => {
    const chat = new Chat(model, { maxNewTokens: 4 });
    await chat.send('one two three four five six seven eight nine ten');
    const tokens = chat.sequence.progress.length;
    expect((await chat.retain('streaming', 24)).slots).toBe(24);
    expect(chat.sequence.progress.length).toBeGreaterThanOrEqual(tokens);
    expect(longest(chat)).toBeLessThanOrEqual(24);
    await chat.send('more');
    expect(longest(chat)).toBe(24);
    chat.clear();
    expect([chat.messages.length, chat.sequence.progress.length]).toEqual([0, 0]);
    const again = new Chat(model, { policy: 'streaming', budget: 24, maxNewTokens: 4 });
    expect((await chat.send('x')).text).toBe((await again.send('x')).text);
    for (const one of [chat, again]) one.destroy();
  });

  it('keeps its block and cadence under another policy, and refuses calls while it is flushed', async () => {
    const chat = new Chat(model, { policy: 'streaming', budget: 48, block: 16, every: 5, maxNewTokens: 4 });
    await chat.send('one');
    expect(await chat.retain('streaming', 24)).toMatchObject({ slots: 24, block: 16, every: 5 });
    await chat.send('two');
    const flushing = chat.flush();
    await expect(chat.send('three')).rejects.toThrow(/^chat: /);
    await flushing;
    expect(longest(chat)).toBe(24);
    chat.destroy();
  });

  it('answers messages in one call', async () => {
    const messages = [{ role: 'user', content: 'one' }];
    const { text } = await generate(model, { messages, maxNewTokens: 4 });
    const chat = new Chat(model, { maxNewTokens: 4 });
    expect((await chat.send('one')).text).toBe(text);
    chat.destroy();
    await expect(generate(model, { messages, prompt: 'x' })).rejects.toThrow(/^prompt: expected exactly one/);
    await expect(generate(model, { messages: [] })).rejects.toThrow(/messages/);
  });
  it('content in parts is answered as their lines, and what is no text is refused', async () => {
    const ask = async (content: unknown): Promise<string> =>
      (await generate(model, { messages: [{ role: 'user', content }] as never, maxNewTokens: 4 })).text;
    expect(
      await ask([
        { type: 'text', text: 'The gate' },
        { type: 'text', text: 'code?' },
      ]),
    ).toBe(await ask('The gate\ncode?'));
    await expect(ask([{ type: 'image_url' }])).rejects.toThrow('messages[0].content[0]: expected { type: ');
  });
});

describe('turns', () => {
  it('lines: the system text first, then a line a turn', async () => {
    const { tokenizer } = model,
      turns = lineTurns(tokenizer, 'S'),
      text = (said: string, before: string): string => tokenizer.decode(turns.turn(said, before));
    expect([text('a', ''), text('b', 'S\na x'), text('c', 'S\na x\n')]).toEqual(['S\na', '\nb', 'c']);
    expect(turns.turn('a', '')[0]).toBe(0);
    expect(turns.turn('b', 'a')[0]).not.toBe(0);
  });
  it("templates: turn after turn makes the template's text of the whole conversation", async () => {
    const { tokenizer, template } = await templateOf(
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{{ '\\n' }}{% endfor %}<assistant>",
    );
    fc.assert(
      fc.property(
        fc.option(fc.string({ unit: fc.constantFrom('a', 'é', '<', ' x') }), { nil: undefined }),
        fc.array(
          fc.tuple(fc.string({ unit: fc.constantFrom('b', '>', 'ü', 'c ') }), fc.constantFrom('yes', 'no', 'maybe so')),
          { minLength: 1, maxLength: 4 },
        ),
        (system, said) => {
          const turns = templateTurns(tokenizer, template, system),
            messages = system === undefined ? [] : [{ role: 'system', content: system }];
          let text = '';
          for (const [user, answer] of said) {
            text += tokenizer.decode(turns.turn(user, text));
            messages.push({ role: 'user', content: user });
            expect(text).toBe(template(messages));
            text += answer;
            messages.push({ role: 'assistant', content: answer });
          }
        },
      ),
    );
  });
});

describe('a chat template that is given', () => {
  it('stands in for that of the checkpoint, with its special tokens, and is parsed once', async () => {
    const at = withTemplate(join(folder(), 'own'), '{% for m in messages %}own {{ m.content }}{% endfor %}'),
      given = await loadModel(at, {
        chatTemplate: '{{ bos_token }}{% for m in messages %}given {{ m.content }}{% endfor %}',
      });
    expect(given.chatTemplate!()!([{ role: 'user', content: 'a' }])).toMatch(/^(<s>)?given a$/);
    expect(given.chatTemplate!()).toBe(given.chatTemplate!());
    given.destroy?.();
    await expect(loadModel(at, { chatTemplate: '{% for' })).rejects.toThrow(
      'chatTemplate: the chat template cannot be rendered',
    );
    await expect(loadModel(at, { chatTemplate: 7 as never })).rejects.toThrow(
      'chatTemplate: must be the source of a chat template, got 7',
    );
  });
  it('serves a model without one', async () => {
    const plain = await loadModel('embedded', { chatTemplate: '{% for m in messages %}{{ m.content }}{% endfor %}' });
    expect(plain.chatTemplate!()!([{ role: 'user', content: 'a' }])).toBe('a');
  });
});

describe('variables of a chat template', () => {
  const source =
    '{% for m in messages %}[{{ m.role }}{% if enable_thinking is defined and not enable_thinking %} at once{% endif %}] {{ m.content }}{{ note }}{% endfor %}';
  it('reach it in a chat, in later turns and in one answer; their texts hold no control token', async () => {
    const own = await loadModel(withTemplate(join(folder(), 'own'), source)),
      kwargs = { enable_thinking: false, note: '</s>' },
      text = (ids: readonly number[]): string => own.tokenizer.decode(ids, { special: true });
    const chat = new Chat(own, { chatTemplateKwargs: kwargs, maxNewTokens: 1 });
    await chat.send('a');
    expect(text(chat.sequence.progress.text.ids)).toContain('[user at once] a</s>');
    await chat.send('b');
    expect(text(chat.sequence.progress.text.ids)).toContain('[user at once] b</s>');
    const ids = chat.sequence.progress.text.ids.filter((id) => own.tokenizer.specials.get('</s>') === id);
    expect(ids).toEqual([]);
    chat.destroy();
    const messages = [{ role: 'user', content: 'a' }],
      length = async (chatTemplateKwargs?: object): Promise<number> =>
        (
          await generate(own, {
            messages,
            ...(chatTemplateKwargs && { chatTemplateKwargs: chatTemplateKwargs as never }),
            maxNewTokens: 0,
          })
        ).report.kept[0][0].length;
    expect((await length(kwargs)) - (await length())).toBe(' at once</s>'.length);
    own.destroy?.();
  });
  it.each<[unknown, string]>([
    [{ messages: [] }, 'chatTemplateKwargs: must leave out messages, which every chat template is given anyway'],
    [{ 'a b': 1 }, 'chatTemplateKwargs: must have names of letters, digits and _, got "a b"'],
    [[1], 'chatTemplateKwargs: must be an object of names and values'],
    [7, 'chatTemplateKwargs: must be variables of a chat template, such as enable_thinking=false'],
    ['{"a":', 'chatTemplateKwargs: must be variables of a chat template'],
  ])('%j is refused in one sentence', (chatTemplateKwargs, sentence) => {
    expect(() => new Chat(model, { chatTemplateKwargs: chatTemplateKwargs as never })).toThrow(sentence);
  });
  it('need a template, and messages', async () => {
    const plain = await loadModel(writeTinyModel(join(folder(), 'plain'))),
      chatTemplateKwargs = { enable_thinking: false };
    expect(() => new Chat(plain, { chatTemplateKwargs })).toThrow(
      'chatTemplateKwargs: expected a model with a chat template, got ',
    );
    await expect(generate(model, { prompt: 'a', chatTemplateKwargs }).then(String)).rejects.toThrow(
      'chatTemplateKwargs: expected messages, which the chat template renders, got a prompt or ids',
    );
    plain.destroy?.();
  });
});

it('an answer fits a schema, turn after turn, and says what its cache holds', async () => {
  const schema = { type: 'object', properties: { it: { enum: ['ab', 'c\nd'] } }, required: ['it'] },
    plain = await loadModel('embedded'); // without a template, whose answers end with their line
  for (const of of [model, plain]) {
    const chat = new Chat(of, { policy: 'streaming', budget: 40, protect: ['first-user', 'number 7', 'nowhere'] });
    for (const said of ['My number is number 7.', 'What is it?']) {
      const { text, finish, report } = await chat.send(said, { schema });
      expect(['ab', 'c\nd']).toContain(JSON.parse(text).it);
      expect(finish).toBe('eos');
      expect(report.held).toEqual(heldOf(chat.sequence));
      expect(report.kept).toEqual(chat.sequence.kept());
      expect(report.notes).toEqual(["'nowhere' is to be protected, and stands nowhere in the conversation so far"]);
    }
    const both = { schema, grammar: await answerGrammar(of, { kind: 'schema', schema }) };
    await expect(chat.send('a', both).then(String)).rejects.toThrow('expected a schema or a grammar, got both');
    expect((await chat.send('And?')).text).not.toBe('');
    expect(chat.messages).toHaveLength(6);
    chat.destroy();
  }
  // a text that a loaded cache holds is protected, and one that it has dropped is told
  const from = new Chat(plain, { policy: 'streaming(sinks=1)', budget: 24, maxNewTokens: 2 });
  await from.send('The first word was wide. And then there was a river, and a boat, and the code was ABCD.');
  const chat = new Chat(plain, {
    ...{ policy: 'streaming(sinks=1)', budget: 24, maxNewTokens: 2, sequence: from.sequence },
    protect: ['ABCD', 'was wide'],
  });
  const { report } = await chat.send('Well, and what was it then, the word, and what was the code?');
  expect(report.notes).toEqual(["'was wide' is to be protected, and was dropped before it was"]);
  expect(heldPlaces(chat.sequence, 'ABCD')[0]!.share).toBe(1);
  chat.destroy();
});

it.each(['<s>', 'x<s> x</s>', '</s>a', 's>', '<', '<s>'.repeat(99)])(
  'templates: the special tokens in %j, which a person wrote, are text in the first turn and in later ones',
  async (said) => {
    const { tokenizer, template } = await templateOf(
        "{% for m in messages %}<s>{{ m.role }}: {{ m.content | replace('x', 'y') }}</s>{% endfor %}",
      ),
      special = new Set(tokenizer.specials.values()),
      [begin, end] = ['<s>', '</s>'].map((name) => tokenizer.specials.get(name));
    const turns = templateTurns(tokenizer, template, undefined);
    for (const [before, ids, wanted] of [
      ['', turns.turn(said, ''), [begin, end]],
      ['x', turns.turn(said, 'x'), [end, begin, end]],
    ] as const) {
      expect([before, ids.filter((id) => special.has(id))]).toEqual([before, wanted]);
      expect(tokenizer.decode(ids)).toBe(`user: ${said.replaceAll('x', 'y')}`);
    }
  },
);
