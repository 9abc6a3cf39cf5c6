import { readFileSync } from 'node:fs';
import {
  answersOf,
  createTokenizer,
  embeddedFolder,
  openCheckpoint,
  toolFormatOf,
  type ToolChoice,
  type ToolFormat,
  type ToolFunction,
} from '@kv/checkpoints';
import { TOOL_TEMPLATES } from '@kv/model-testing/tool-templates';
import { reference } from '@kv/model-testing/reference';
import { inTurn } from '@kv/model-testing/in-turn';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { grammarsOf, type Matcher, type VocabularyModel } from '../src/index.ts';

const TOOLS: readonly ToolFunction[] = [
  {
    name: 'find',
    parameters: {
      type: 'object',
      properties: {
        Query: { type: 'string', maxLength: 12 },
        code: { type: 'string', minLength: 2, maxLength: 4 },
        more: { type: 'string', minLength: 3 },
        kind: { enum: ['a "b"', 'c', 'd\ne'] },
        most: { type: 'integer', minimum: -3, maximum: 120 },
        near: { type: 'number', minimum: 0, exclusiveMaximum: 2 },
        tags: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 3 },
        where: { $ref: '#/$defs/place' },
      },
      required: ['Query', 'tags'],
      additionalProperties: false,
      $defs: {
        place: {
          type: 'object',
          properties: {
            name: { anyOf: [{ type: 'string' }, { type: 'null' }] },
            on: { type: 'boolean' },
            inner: { $ref: '#/$defs/place' },
          },
          required: ['on', 'at'],
          additionalProperties: { type: 'integer', minimum: 0, maximum: 9 },
        },
      },
    },
  },
  { name: 'stop.all' },
  {
    name: 'keep',
    parameters: {
      type: 'object',
      properties: {
        all: { type: 'object', propertyNames: { type: 'string' }, additionalProperties: { type: 'boolean' } },
        list: { type: 'array', items: { type: 'null' }, uniqueItems: false, maxItems: 2 },
      },
      required: ['all', 'word'],
      minProperties: 0,
    },
  },
  { name: 'stop', parameters: { type: 'object', properties: { now: { type: ['boolean', 'null'] } } } },
];

const fits = new Map(
  TOOLS.map(({ name, parameters = { type: 'object' } }) => [name, new Ajv2020({ strict: false }).compile(parameters)]),
);

/** A byte-level vocabulary that has some texts as special tokens. */
function withMarks(marks: readonly string[]): VocabularyModel {
  const file = 'data/models/retriever-1.3m/tokenizer.json',
    json = JSON.parse(readFileSync(reference(file), 'utf8')) as { added_tokens: object[] },
    { size } = createTokenizer(json, file),
    added = [...marks, '<|never|>'].map((content, i) => ({
      ...{ id: size + i, content, special: true, single_word: false, lstrip: false, rstrip: false, normalized: false },
    })),
    tokenizer = createTokenizer({ ...json, added_tokens: [...json.added_tokens, ...added] }, file);
  return { tokenizer, config: { vocab: tokenizer.size, eosIds: [tokenizer.specials.get('</s>') as number] } };
}

/** Texts that end what a walk may be in. */
const CLOSERS = [
  "'",
  '"',
  '\n</parameter>\n',
  '<|"|>',
  '}',
  ']',
  ')',
  '</think>',
  '<|end|><|start|>assistant',
  '<channel|>',
  '[/THINK]',
  '"]',
  'a',
];

/** Draws allowed tokens until an end may come; after a while those that end something. */
function walk(
  { tokenizer, config }: VocabularyModel,
  matcher: Matcher,
  draw: () => number,
  { marks, ends }: ToolFormat,
): string {
  const decoder = tokenizer.streamDecoder({ special: marks }),
    patience = draw() * 60,
    last = [...config.eosIds, ...ends.map((end) => tokenizer.specials.get(end) as number)],
    whole = Array.from({ length: config.vocab }, (_, id) => id).filter(
      (id) => !last.includes(id) && !tokenizer.decode([id], { special: true }).includes('\uFFFD'),
    ),
    allows = (id: number): boolean => ((matcher.allowed()[id >> 5] as number) & (1 << (id & 31))) !== 0;
  let text = '';
  const take = (id: number): void => {
    matcher.accept(id);
    text += decoder.push(id);
  };
  for (let step = 0; step < 1500; step++) {
    if (last.some(allows) && (!whole.some(allows) || draw() < 0.3)) return text + decoder.end();
    const closer = CLOSERS[Math.floor(draw() * CLOSERS.length)] as string;
    if (step > patience) for (const id of tokenizer.encode(closer, { special: false }).ids) if (allows(id)) take(id);
    // bytes of half a character are none in text
    const open = whole.filter((id) => allows(id));
    if (open.length > 0) take(open[Math.floor(draw() * open.length)] as number);
  }
  throw new Error(`no end after 1500 steps: ${JSON.stringify(text.slice(-200))}`);
}

const CHOICES: readonly (readonly [ToolChoice, boolean])[] = [
  ['required', true],
  ['auto', true],
  [{ name: 'find' }, false],
  ['required', false],
];

describe.each(inTurn(Object.keys(TOOL_TEMPLATES), 3))('%s', (name) => {
  test('whatever may be said under a structure has calls of offered functions whose arguments fit, by another validator', async () => {
    const { chatTemplate, close } = await openCheckpoint(embeddedFolder(), {
        chatTemplate: TOOL_TEMPLATES[name]!.source,
      }),
      template = chatTemplate()!,
      format = toolFormatOf(template)!,
      model = withMarks([...new Set([...format.marks, ...format.ends])]);
    await close();
    let calls = 0,
      state = 7;
    const draw = (): number => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
    for (const [choice, parallel] of CHOICES) {
      const structure = format.structure(TOOLS, choice, parallel),
        grammar = await grammarsOf(model).compile({
          kind: 'structure',
          structure,
          marks: format.marks,
          ends: format.ends,
        });
      for (let i = 0; i < 4; i++) {
        const matcher = grammar.begin(),
          text = walk(model, matcher, draw, format),
          reader = answersOf(template).reader(TOOLS),
          parts = [...Array.from(text).flatMap((char) => reader.push(char)), ...reader.end()],
          made = parts.flatMap((part) => (part.what === 'call' ? [part.name] : []));
        matcher.destroy();
        for (const part of parts)
          if (part.what === 'arguments') {
            const check = fits.get(made[part.call] as string)!;
            expect(check(JSON.parse(part.text)), `${text}: ${part.text} ${JSON.stringify(check.errors)}`).toBe(true);
          }
        if (choice !== 'auto') expect(made.length, text).toBeGreaterThan(0);
        if (!parallel) expect(made.length, text).toBeLessThanOrEqual(1);
        if (typeof choice === 'object') expect(new Set(made)).toEqual(new Set(['find']));
        expect(text).not.toContain('<|never|>');
        calls += made.length;
      }
    }
    expect(calls).toBeGreaterThan(10);
  });
});

/** Models and grammars of formats, where calls are optional. */
const made = new Map<string, ReturnType<typeof optionalCalls>>();

describe('Harmony, where calls are optional', () => {
  const START = '<|end|><|start|>assistant',
    CALL = ' to=functions.stop <|constrain|>json<|message|>',
    THOUGHT = `<|channel|>analysis<|message|>I may write to=functions.x or to=functions.stop here${START}`;
  test.each([
    ['its words in reasoning and text are text', `${THOUGHT}<|channel|>final<|message|>Use to=functions.x then.`, true],
    ['so are they in an answer without a channel', 'Use to=functions.x then.', true],
    ['a call at once', '<|channel|>commentary to=functions.stop <|constrain|>json<|message|>{"now": true}', true],
    ['a call after reasoning', `${THOUGHT}<|channel|>commentary${CALL}{"now": null}`, true],
    [
      'a call whose role names the function',
      `${THOUGHT} to=functions.stop<|channel|>commentary json<|message|>{}`,
      true,
    ],
    ['arguments that do not fit at once', `<|channel|>commentary${CALL}{"now": 1}`, false],
    ['arguments that do not fit in the role', `${CALL}{"now": 1}`, false],
    ['arguments that do not fit later', `${THOUGHT}<|channel|>commentary${CALL}{"now": 1}`, false],
    ['arguments that do not fit in a later role', `${THOUGHT}${CALL}{"now": 1}`, false],
    ['arguments that do not fit in the channel of reasoning', `${THOUGHT}<|channel|>analysis${CALL}{"now": 1}`, false],
    ['a function that is not offered', `${THOUGHT}<|channel|>commentary to=functions.x<|message|>{}`, false],
    [
      'a message to another recipient',
      `<|channel|>commentary to=assistant${THOUGHT}<|channel|>final<|message|>Yes.`,
      true,
    ],
  ])('%s', async (_, text, may) => expect(await mayBe('harmony', text)).toBe(may));
});

test.each([
  ['{"name": "stop", "parameters": {"now": true}}', true],
  ['{ "name": "stop", "parameters": {}}', true],
  ['\n\n{"type": "function", "name": "stop", "parameters": {"now": null}}', true],
  ['<|python_tag|>{ "type": "function", "name": "stop", "parameters": {}}', true],
  ['{"type": "function", "name": "stop", "parameters": {"now": 1}}', false],
  ['{ "name": "stop", "parameters": {"now": 1}}', false],
  ['\n\n\n {"name": "stop", "parameters": {"now": 1}}', false],
  ['\u00a0{"name": "stop", "parameters": {"now": 1}}', true],
  ['{\n"type" : "function", "name": "x", "parameters": {}}', false],
  [' <|python_tag|>stop()', false],
  ['{"type": "object", "now": 1}', true],
  ['\n { "now": 1, "name": "stop"}', true],
  ['Well: {"name": 1}', true],
  ['', true],
])('an answer of Llama 3 where calls are optional: %j', async (text, may) =>
  expect(await mayBe('llama3', text)).toBe(may),
);

/** Returns whether an answer may be this text where calls are optional. */
async function mayBe(name: string, text: string): Promise<boolean> {
  if (!made.has(name)) made.set(name, optionalCalls(name));
  const { model, grammar } = await (made.get(name) as ReturnType<typeof optionalCalls>),
    matcher = grammar.begin(),
    allows = (id: number): boolean => ((matcher.allowed()[id >> 5] as number) & (1 << (id & 31))) !== 0,
    fits = model.tokenizer.encode(text, { special: false }).ids.every((id) => {
      const allowed = allows(id);
      if (allowed) matcher.accept(id);
      return allowed;
    }),
    ended = fits && allows(model.config.eosIds[0] as number);
  matcher.destroy();
  return ended;
}

async function optionalCalls(name: string) {
  const { chatTemplate, close } = await openCheckpoint(embeddedFolder(), {
      chatTemplate: TOOL_TEMPLATES[name]!.source,
    }),
    { marks, ends, structure } = toolFormatOf(chatTemplate()!)!,
    model = withMarks([...new Set([...marks, ...ends])]);
  await close();
  const grammar = await grammarsOf(model).compile({
    ...{ kind: 'structure', marks, ends },
    structure: structure(TOOLS, 'auto', true),
  });
  return { model, grammar };
}
