import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { afterAll, describe, expect, test } from 'vitest';
import {
  answerGrammar,
  Chat,
  chatIds,
  decode,
  generate,
  loadModel,
  Sequence,
  type Grammar,
  type Model,
} from '../src/index.ts';

const turns = (prompt: string): string =>
    `{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>${prompt}{% endif %}`,
  CALL = ' to=functions.{{ c.function.name }}<|channel|>commentary json<|message|>{{ c.function.arguments | tojson }}',
  HARMONY = `{% for m in messages %}<|start|>{{ m.role }}{% for c in m.tool_calls or [] %}${CALL}{% endfor %}<|message|>{{ m.content }}{{ '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}`;
/** What each kind of model writes before the text for the user, and the special tokens that it does so with. */
const KINDS = {
  'channels of gpt-oss': {
    template: HARMONY,
    marks: ['<|start|>', '<|channel|>', '<|constrain|>', '<|message|>', '<|end|>', '<|return|>'],
    before: (thought: string) =>
      `<|channel|>analysis<|message|>${thought}<|end|><|start|>assistant<|channel|>final<|message|>`,
    // of both channels it takes `final`
    towards: 'f',
  },
  'channels of Gemma 4': {
    template: turns('{% if enable_thinking is defined %}{% else %}<|channel>thought\n<channel|>{% endif %}'),
    marks: ['<|channel>', '<channel|>'],
    before: (thought: string) => `<|channel>thought\n${thought}\n<channel|>`,
    towards: '{',
  },
  'reasoning that the prompt begins': {
    template: turns('<think>\n'),
    marks: ['<think>', '</think>'],
    before: (thought: string) => `${thought}\n</think>\n\n`,
    towards: '</think>',
  },
} as const;

/** The first of the ids of bytes that no text has. */
const SPARE = 2 + 0xf8;
/** Writes a model whose vocabulary has special tokens at the bytes that no text has. */
function withMarks(template: string, marks: readonly string[]): string {
  const folder = writeTinyModel(join(mkdtempSync(join(tmpdir(), 'kv-turns-')), 'own')),
    file = join(folder, 'tokenizer.json'),
    json = JSON.parse(readFileSync(file, 'utf8')) as {
      added_tokens: object[];
      model: { vocab: Record<string, number> };
    };
  for (const [i, content] of marks.entries()) {
    const id = SPARE + i,
      [old] = Object.entries(json.model.vocab).find(([, at]) => at === id)!;
    delete json.model.vocab[old];
    json.model.vocab[content] = id;
    json.added_tokens.push({ ...json.added_tokens[0], id, content });
  }
  writeFileSync(file, JSON.stringify(json));
  writeFileSync(join(folder, 'chat_template.jinja'), template);
  return folder;
}

const loaded: Model[] = [];
afterAll(() => loaded.forEach((model) => model.destroy?.()));

describe.each(Object.entries(KINDS))('%s', (_, { template, marks, before, towards }) => {
  const model = (async () => {
      const made = await loadModel(withMarks(template, marks));
      loaded.push(made);
      return made;
    })(),
    /** A grammar of an answer that is this text. */
    saying = async (value: string): Promise<Grammar> =>
      answerGrammar(await model, { kind: 'structure', structure: { type: 'const_string', value }, marks }),
    /** Its special tokens come as such, not letter by letter. */
    logitBias = Object.fromEntries(marks.map((_, i) => [SPARE + i, 100])),
    messages = [{ role: 'user', content: 'Hi.' }],
    said = { text: 'It is 4.', reasoning: '2 and 2.' };

  test('a chat shows and keeps the text, and reasoning apart', async () => {
    const chat = new Chat(await model, { maxNewTokens: 200, logitBias });
    for (const turn of [0, 1]) {
      const answer = chat.send('Hi.', { grammar: await saying(before(said.reasoning) + said.text) }),
        shown = { text: '', reasoning: '' };
      for await (const { text, reasoning = '' } of answer) {
        shown.text += text;
        shown.reasoning += reasoning;
      }
      expect(shown).toEqual(said);
      expect(await answer).toMatchObject({ ...said, finish: 'eos' });
      expect(chat.messages[2 * turn + 1]).toEqual({
        ...{ role: 'assistant', content: said.text, reasoning_content: said.reasoning },
      });
    }
    chat.destroy();
  });
  test('an answer that is cut before its text has none', async () => {
    const whole = before('hm'),
      cut = whole.slice(0, whole.lastIndexOf('<')),
      chat = new Chat(await model, { maxNewTokens: 200, logitBias });
    expect(await chat.send('Hi.', { grammar: await saying(cut) })).toMatchObject({
      ...{ text: '', reasoning: expect.stringMatching(/^hm\n?$/) },
    });
    chat.destroy();
  });
  test('generate reads the answer to messages so, to ids where it is told, and decode too', async () => {
    const of = await model,
      all = before(said.reasoning) + said.text,
      options = { grammar: await saying(all), maxNewTokens: 200, stop: ['4.'], logitBias },
      cut = { ...said, text: 'It is ' },
      ids = chatIds(of, messages);
    expect(await generate(of, { messages, ...options })).toMatchObject(cut);
    expect(await generate(of, { ids, turn: true, ...options })).toMatchObject(cut);
    const raw = await generate(of, { ids, ...options });
    expect(raw.reasoning).toBeUndefined();
    expect(raw.text).toBe(`${marks.reduce<string>((text, mark) => text.replaceAll(mark, ''), all).slice(0, -2)}`);
    const sequence = new Sequence(of),
      told = { text: '', reasoning: '' };
    await sequence.prefill(ids);
    for await (const { text, reasoning = '' } of decode(sequence, { ...options, turn: true })) {
      told.text += text;
      told.reasoning += reasoning;
    }
    sequence.destroy();
    expect(told).toEqual(cut);
  });
  test('a schema is one of the text', async () => {
    const of = await model,
      schema = { enum: [true, 'ab'] },
      { specials, encode } = of.tokenizer,
      id = specials.get(towards) ?? encode(towards, { special: false }).ids[0]!,
      bias = { temperature: 0, maxNewTokens: 200, logitBias: { [id]: 100 } },
      chat = new Chat(of, bias);
    for (const answer of [await chat.send('Hi.', { schema }), await generate(of, { messages, schema, ...bias })]) {
      expect([true, 'ab']).toContain(JSON.parse(answer.text));
    }
    chat.destroy();
    for (const [text, may] of [
      [`${before('hm')}true`, true],
      [`${before('hm')}false`, false],
      // nothing is begun of what must come before the text, but where the prompt of Gemma 4 has ended it
      ['true', template.includes('enable_thinking')],
    ] as const) {
      const constraint = (await answerGrammar(of, { kind: 'schema', schema }, chatIds(of, messages))).begin(),
        fits = encode(text, { special: false }).ids.every((next) => {
          const allowed = constraint.allowed();
          if (allowed && ((allowed[next >> 5] as number) & (1 << (next & 31))) === 0) return false;
          constraint.accept(next);
          return true;
        });
      expect([text, fits && constraint.complete]).toEqual([text, may]);
      constraint.destroy();
    }
  });
});
