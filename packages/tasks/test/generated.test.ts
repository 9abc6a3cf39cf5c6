import { describe, expect, it } from 'vitest';
import { generatedTasks, generateProblems, grade } from '../src/index.ts';
import type { Problem } from '../src/index.ts';
import { encode, made } from './made.ts';

describe('generated tasks', () => {
  it.each(generatedTasks.filter((task) => task !== 'chain'))(
    '%s fills its length, holds its answers, and grades them',
    (task) => {
      const all = made(task);
      expect(made(task)).toEqual(all);
      expect(made(task, 2)).toEqual(all.slice(0, 2));
      expect(made(task, 4, 2).map(({ context }) => context)).not.toEqual(all.map(({ context }) => context));
      expect(new Set(all.map(({ id }) => id)).size).toBe(4);
      for (const problem of all) {
        const { context, question, answers, maxNewTokens, stop = [] } = problem,
          length = encode(context + question).ids.length + maxNewTokens;
        expect(length).toBeLessThanOrEqual(1800);
        expect(length, context.slice(-300)).toBeGreaterThan(1800 * 0.8);
        for (const answer of answers) {
          // a sum is worked out, and what was never said is nowhere
          if (task !== 'arithmetic' && answer !== 'unknown') expect(context).toContain(answer);
          expect(
            stop.some((end) => answer.includes(end)),
            answer,
          ).toBe(false);
        }
        expect(grade(` ${answers.join(', ')}`, problem)).toEqual({ score: 1, parsed: true });
        expect(grade(' nothing of it', problem).score).toBe(0);
      }
    },
  );
  it.each(['niah_single_1', 'niah_single_3', 'niah_multikey_3', 'confusers_10', 'longeval', 'keyvalue'] as const)(
    '%s holds its value once',
    (task) => {
      for (const { context, answers } of made(task)) expect(context.split(answers[0])).toHaveLength(2);
    },
  );
  it('niah_multikey_2 states its key once, however few words there are', async () => {
    const sentences = ['Some river runs under that bridge.', 'Under that bridge some river runs.'],
      problems = generateProblems('niah_multikey_2', { encode, sentences, tokens: 1800, problems: 8, seed: 1 });
    for (const { context, question } of problems) {
      const [, key] = /for (\S+) mentioned/.exec(question)!;
      expect(context.split(` for ${key} is: `)).toHaveLength(2);
    }
  });
  it('ordered asks for one of four answers to the same request, by its order', () => {
    made('ordered', 8).forEach(({ context, question, answers, grader }, i) => {
      const [, ordinal, place] = /the (\w+) number that you gave me for (\w+)/.exec(question)!,
        given = [...context.matchAll(new RegExp(`for ${place}\\.\nAssistant: (\\d+)`, 'g'))].map(([, value]) => value);
      expect(given).toHaveLength(4);
      expect(new Set(given).size).toBe(4);
      expect(ordinal).toBe(['first', 'second', 'third', 'fourth'][i % 4]);
      expect(answers).toEqual([given[i % 4]]);
      for (const other of given.filter((value) => value !== answers[0])) {
        expect(context.split(answers[0])).toHaveLength(2); // nobody else's number
        expect(grade(` ${other}`, { answers, grader }).score).toBe(0);
      }
    });
  });
  it('updates asks for the last of three rooms, or for one that was never said', () => {
    made('updates', 8).forEach(({ context, question, answers, grader }, i) => {
      const [, name] = /does (\w+) have/.exec(question)!,
        rooms = [...context.matchAll(new RegExp(`${name}(?:'s room is| moved: the room is now) (\\d+)`, 'g'))];
      expect(rooms).toHaveLength(i % 4 === 3 ? 0 : 3);
      expect(answers).toEqual([rooms.at(-1)?.[1] ?? 'unknown']);
      for (const [, room] of rooms.slice(0, -1)) expect(grade(` ${room}`, { answers, grader }).score).toBe(0);
    });
  });
  it.each([
    ['questions', 4],
    ['instructions', 3],
  ] as const)('%s asks %i questions about one document, each of its own value', (task, parts) => {
    const all = made(task, 3 * parts, 7);
    for (const [i, { context, document, question, answers }] of all.entries()) {
      const [first] = all.slice(i - (i % parts));
      expect([context, document]).toEqual([first.context, first.document]);
      const begun = question.slice(question.indexOf('Answer: ') + 8),
        [value] = answers,
        stated = task === 'questions' ? `${begun} ${value}.` : `${begun.slice(2)}${value}"`;
      expect(context.toLowerCase()).toContain(stated.toLowerCase());
      expect(context.toLowerCase().split(value.toLowerCase())).toHaveLength(2);
    }
    expect(new Set(all.map(({ document }) => document)).size).toBe(3);
    expect(new Set(all.map(({ context }) => context)).size).toBe(3);
  });
  it('arithmetic shows worked sums that are right, and its own is none of them', () => {
    for (const { context, question, answers } of made('arithmetic', 8)) {
      const examples = context.split('\n\n').filter((one) => one !== '');
      expect(examples.length).toBeGreaterThan(15);
      const value = (asks: string): number => {
        const [a, b, c] = [...asks.matchAll(/\d+/g)].map(Number);
        return a + b - c;
      };
      for (const one of examples) {
        const [asks, solved] = one.split('\nA:');
        expect(solved.endsWith(`The answer is ${value(asks)}`), one).toBe(true);
      }
      expect(answers).toEqual([String(value(question))]);
    }
  });
  it('paraphrased asks without a word of its fact', () => {
    for (const { context, question, answers } of made('paraphrased', 8)) {
      const fact = context.match(/[^.!?]*\$\d{5}[^.!?]*\./)![0];
      expect(fact).toContain(answers[0]);
      const content = (text: string): string[] =>
        (text.toLowerCase().match(/[a-z]{4,}/g) ?? []).filter(
          (word) => !['according', 'text', 'question', 'answer'].includes(word),
        );
      const stated = new Set(content(fact.slice(fact.lastIndexOf(' The ') + 1)).map((word) => word.slice(0, 4)));
      expect(content(question).filter((word) => stated.has(word.slice(0, 4)))).toEqual([]);
    }
  });
  it('stand at the depths that turn with the problems', () => {
    const shares = made('tool_32', 5, 3, 4000).map(
      ({ context, answers }) => context.indexOf(answers[0]) / context.length,
    );
    shares.forEach((share, i) => expect(Math.abs(share - [0.1, 0.3, 0.5, 0.7, 0.9][i])).toBeLessThan(0.08));
  });
  it('refuse a length without room in one sentence', () =>
    expect(() => made('slots', 1, 1, 60)).toThrow(
      /^slots: tokens must be at least \d+, which its shortest text and answer take, got 60$/,
    ));
  it.each(generatedTasks)(
    '%s: the least length that the refusal names is enough for all problems, one less is not',
    (task) => {
      const needed = (tokens: number): number | undefined => {
          try {
            made(task, 8, 1, tokens);
            return undefined;
          } catch (cause) {
            return Number(/tokens must be at least (\d+),/.exec((cause as Error).message)?.[1]);
          }
        },
        least = needed(1) ?? NaN;
      expect(needed(least)).toBeUndefined();
      expect(needed(least - 1)).toBe(least);
    },
  );
});

describe('chain', () => {
  /** Solves a problem from its text alone. */
  const worked = ({ context, question }: Problem): { solution: string; answer: string } => {
    const values = new Map(
        [...context.matchAll(/(?<![=+-])([a-z])(\d)/g)].map(([, name, digit]) => [name, Number(digit)]),
      ),
      lines = new Map(
        [...context.matchAll(/([A-Z])=([a-z])([+-])([a-z])([;?])/g)].map(([, name, ...rest]) => [name, rest]),
      ),
      steps: string[] = [],
      read = (name: string): number => values.get(name) ?? expect.fail(`${name} is read before its step`);
    for (let at = question.slice(0, 1); ; at = at === 'Z' ? 'A' : String.fromCharCode(at.charCodeAt(0) + 1)) {
      const [x, sign, y, end] = lines.get(at) ?? expect.fail(`no line of ${at}`),
        value = (10 + (sign === '+' ? read(x) + read(y) : read(x) - read(y))) % 10,
        name = at.toLowerCase();
      steps.push(`${at}=${x}${read(x)}${sign}${y}${read(y)}=${name}${value}`);
      values.set(name, value);
      if (end === '?') break;
    }
    expect(steps).toHaveLength(lines.size);
    const answer = steps
      .slice(-3)
      .map((step) => step.slice(-2))
      .join('');
    return { solution: `${steps.join(';').slice(2)}#${answer}\n`, answer };
  };
  it('is one whose steps read earlier ones, and whose last line is the answer', () => {
    for (const problem of made('chain', 50)) {
      const { solution, answer } = worked(problem);
      expect(problem.answers).toEqual([answer]);
      expect(solution.match(/=/g)).toHaveLength(2 * 22 - 1);
      expect(problem.maxNewTokens).toBe(encode(solution).ids.length);
      expect(grade(solution, problem)).toEqual({ score: 1, parsed: true });
      const wrong = solution.replace(/\d\n$/, (end) => `${(Number(end[0]) + 1) % 10}\n`);
      expect(grade(wrong, problem)).toEqual({ score: 0, parsed: true });
      expect(grade(solution.slice(0, -9), problem)).toEqual({ score: 0, parsed: false });
    }
  });
  it('is as long as fits', () => {
    for (const problem of made('chain', 20, 1, 120)) {
      const { solution } = worked(problem),
        length = encode(problem.context + problem.question + solution).ids.length;
      expect(length).toBeGreaterThan(90);
      expect(length).toBeLessThanOrEqual(120);
    }
    expect(() => made('chain', 1, 1, 20)).toThrow(/^chain: tokens must be at least \d+/);
  });
  it('is the same text on every machine', () => {
    const [{ id, context, question, answers }] = made('chain', 1, 1, 120);
    expect({ id, text: context + question, answers }).toMatchInlineSnapshot(`
      {
        "answers": [
          "s7t3u5",
        ],
        "id": "chain/1/0",
        "text": "S=r+q;n4;U=t+m?T=s-o;R=p-q;o4;Q=m-p;m2;p7;
      Q=",
      }
    `);
  });
});

describe('RULER', () => {
  it('tracks variables by their own assignments', () => {
    for (const { context, question, answers } of made('vt')) {
      const [, value] = /assigned the value (\d+) in the text above/.exec(question) ?? [],
        held = new Map([...context.matchAll(/VAR ([A-Z]+) = (?:VAR )?(\w+)/g)].map(([, name, from]) => [name, from]));
      const root = (name: string): string => (held.has(name) ? root(held.get(name) as string) : name);
      expect([...held.keys()].filter((name) => root(name) === value).sort()).toEqual([...answers].sort());
    }
  });
  it('counts words as it asks for them', () => {
    const counts = (text: string): [string, number][] => {
      const all = new Map<string, number>();
      for (const word of text.match(/[a-z]+/g) ?? []) all.set(word, (all.get(word) ?? 0) + 1);
      return [...all].sort((a, b) => b[1] - a[1]);
    };
    for (const { context, answers } of made('cwe', 2, 1, 3000)) {
      const list = context.slice(context.lastIndexOf('Memorize the ones that appear most often.\n') + 42);
      expect(
        counts(list)
          .slice(0, 10)
          .map(([word]) => word)
          .sort(),
      ).toEqual([...answers].sort());
    }
    for (const { context, answers } of made('fwe', 2))
      expect(
        counts(context.split('coded words. ').at(-1) as string)
          .slice(0, 3)
          .map(([word]) => word),
      ).toEqual(answers);
  });
});
