import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { answerRules, exactMatch, heldOutBook, namesValue, needle, sentencesOf } from '../src/index.ts';
import type { NeedleOptions } from '../src/index.ts';
import { encode } from './encode.ts';

let sentences: readonly string[];
beforeAll(async () => {
  sentences = sentencesOf(await heldOutBook());
});
const options = fc.record({
  tokens: fc.integer({ min: 80, max: 700 }),
  depth: fc.double({ min: 0, max: 1, noNaN: true }),
  seed: fc.integer(),
  form: fc.constantFrom('code', 'number'),
  asking: fc.constantFrom('cued', 'free'),
  distractors: fc.constantFrom(0, 3),
});
const holds = (
  claim: (made: ReturnType<typeof needle>, asked: NeedleOptions) => void,
  where: Partial<NeedleOptions> = {},
): void =>
  fc.assert(
    fc.property(options, (drawn) => {
      const asked = {
        ...drawn,
        distractors: drawn.tokens < 200 ? 0 : drawn.distractors,
        ...where,
        sentences,
        encode,
      } as NeedleOptions;
      claim(needle(asked), asked);
    }),
    { numRuns: 60 },
  );

describe('needle', () => {
  it('gives the same prompt for the same seed', () => holds((made, asked) => expect(needle(asked)).toEqual(made)));
  it('gives other values for other seeds', () => {
    const values = Array.from(
      { length: 50 },
      (_, seed) => needle({ encode, sentences, tokens: 128, depth: 0.5, seed }).value,
    );
    expect(new Set(values).size).toBe(50);
  });
  it('is exactly as long as asked', () =>
    holds((made, asked) => {
      expect(made.documentIds.length + made.questionIds.length).toBe(asked.tokens);
      expect(made.documentIds).toEqual(encode(made.document).ids);
    }));
  it('is exactly as long as asked for a tokenizer of single characters too', () => {
    const letters: typeof encode = (text, { special = true } = {}) => ({
      ids: [...(special ? [0] : []), ...[...text].map((c) => c.charCodeAt(0))],
      offsets: [...(special ? [[0, 0] as const] : []), ...[...text].map((_, i) => [i, i + 1] as const)],
    });
    for (const tokens of [150, 201, 333]) {
      const made = needle({ encode: letters, sentences, tokens, depth: 0.5, seed: tokens });
      expect(made.documentIds.length + made.questionIds.length).toBe(tokens);
    }
  });
  it('states the value once, where the span says, and never in the book or the question', () =>
    holds((made) => {
      expect(made.document.slice(...made.valueSpan)).toBe(made.value);
      expect(made.document.split(made.value)).toHaveLength(2);
      expect(made.question).not.toContain(made.value);
      expect(sentences.join(' ')).not.toContain(made.value);
    }));
  it('names the tokens that hold the value', () =>
    holds((made) => {
      const text = made.valueTokens
        .map((i) => made.document.slice(...made.offsets[i]))
        .join('')
        .trim();
      expect(text).toBe(made.value);
    }));
  it('hides the fact within one sentence of its depth', () =>
    holds(
      (made, { depth }) => {
        const before = made.document.slice(0, made.document.lastIndexOf('The ', made.valueSpan[0]));
        const after = made.document.slice(made.valueSpan[1] + 1);
        const size = (text: string): number => encode(text, { special: false }).ids.length;
        const all = size(before) + size(after);
        const longest = Math.max(...sentencesOf(`${before} ${after}`).map(size));
        expect(Math.abs(size(before) - depth * all)).toBeLessThanOrEqual(longest / 2 + 2);
      },
      { distractors: 0 },
    ));
  it('writes the forms that the model was trained on', () => {
    const code = needle({ encode, sentences, tokens: 200, depth: 0.5, seed: 3, form: 'code', distractors: 3 });
    expect(code.document.match(/The \w+ code is: [A-Z0-9]{8}\./g)).toHaveLength(4);
    expect(code.question).toBe(`\nThe ${code.key} code is:`);
    const number = needle({ encode, sentences, tokens: 200, depth: 0.5, seed: 3, form: 'number', asking: 'free' });
    expect(number.document).toContain(`The special magic ${number.key} number is: ${number.value}.`);
    expect(number.value).toMatch(/^[1-9]\d{6}$/);
    expect(number.question).toBe(`\nQuestion: What is the special magic ${number.key} number?\nAnswer:`);
  });
  it('refuses a length without room for the fact, and a depth outside the text', () => {
    expect(() => needle({ encode, sentences, tokens: 20, depth: 0.5, seed: 1 })).toThrow(
      /^needle: tokens must leave room for \d+ tokens of facts in the document, got \d+$/,
    );
    expect(() => needle({ encode, sentences, tokens: 200, depth: 1.5, seed: 1 })).toThrow(
      'needle: depth must be from 0 to 1, got 1.5',
    );
  });
});

describe('a needle', () => {
  it('allows an answer of as many tokens as its value takes, a character each', () => {
    for (const [digits, most] of [
      [7, 12],
      [10, 12],
      [15, 17],
    ] as const) {
      const options = { encode, sentences, tokens: 200, depth: 0.5, seed: 1, form: 'number', digits } as const;
      expect(needle(options).maxNewTokens).toBe(most);
      expect(needle({ ...options, asking: 'free' }).maxNewTokens).toBe(32);
    }
  });
  it('is refused where the text holds every value', () => {
    const all = Array.from({ length: 1000 }, (_, i) => `${i}.`);
    expect(() =>
      needle({ encode, sentences: all, tokens: 200, depth: 0.5, seed: 1, form: 'number', digits: 3 }),
    ).toThrow('expected a value that the text does not hold yet, got none in 1000 draws: another text');
  });
});

describe('exactMatch', () => {
  it.each([
    [' XK7M9P2Q.', true],
    [' XK7M9P2Q', true],
    ['XK7M9P2Q\nThe', true],
    [' XK7M9P2Q. The secret', true],
    [' XK7M9P2', false],
    [' XK7M9P2QQ.', false],
    [' The XK7M9P2Q.', false],
    ['.XK7M9P2Q', false],
    ['', false],
  ])('of %j is %s', (answer, match) => expect(exactMatch(answer, 'XK7M9P2Q')).toBe(match));
});

describe('namesValue', () => {
  it.each([
    ['The Sofia code is: XK7M9P2Q.', true],
    [' XK7M9P2Q', true],
    ['**XK7M9P2Q**\n', true],
    ['It\u2019s "XK7M9P2Q", as the DIRECTOR said', true],
    ['XK7M9P2Q, not AB3D5F7H', true],
    ['in 1234567 it was XK7M9P2Q', true],
    ['AB3D5F7H or XK7M9P2Q', false],
    ['XK7M9P2QQ', false],
    ['0XK7M9P2Q', false],
    ['XK7M9P2Q-2', false],
    ['XK7M 9P2Q', false],
    ['xk7m9p2q', false],
    ['\u00c9XK7M9P2Q', false],
    ['', false],
  ])('of %j is %s', (answer, named) => expect(namesValue(answer, 'XK7M9P2Q')).toBe(named));
  it('takes a number for a whole one', () =>
    expect(
      ['The number is 1234567.', 'It is 1,234,567.', '12345678', '1,234,5678', '7,654,321 1234567'].map((answer) =>
        namesValue(answer, '1234567'),
      ),
    ).toEqual([true, true, false, false, false]));
  it('holds of the fact that was hidden, whatever stands around it, and then exactMatch does not', () =>
    holds(({ document, value, valueSpan: [start] }, { asking }) => {
      const sentence = document.slice(document.lastIndexOf('The ', start), start + value.length + 1);
      expect(answerRules.free.right(sentence, value)).toBe(true);
      expect(answerRules[asking!].right(` ${value}.`, value)).toBe(true);
      expect(answerRules.cued.right(sentence, value)).toBe(false);
    }));
});

describe('sentencesOf', () => {
  it('cuts after a full stop and a closing quote, not inside an abbreviation before a small letter', () =>
    expect(sentencesOf('He went. "Stop!" She\nsaid no. It was approx. five.')).toEqual([
      'He went.',
      '"Stop!"',
      'She said no.',
      'It was approx. five.',
    ]));
  it('gives 800 sentences of the book or more, none empty', () => {
    expect(sentences.length).toBeGreaterThan(800);
    expect(sentences.every((s) => s.trim().length > 1)).toBe(true);
  });
});
