import { fit } from '../fit.ts';
import type { NewProblem, Material } from '../material.ts';
import { proseFrom } from '../sentences.ts';
import type { Random } from '../random.ts';
import { between, distinct, drawUntil, letters, listText, shuffle, uuid, wordsOf } from '../values.ts';

type Kind = 'words' | 'numbers' | 'uuids';
/** Parameters of a needle task in RULER's configuration. */
export interface NeedleArgs {
  readonly haystack: 'noise' | 'essay' | 'needle';
  readonly keys: Kind;
  readonly values: Kind;
  /** Number of keys, values per key, and keys asked for. */
  readonly k: number;
  readonly v: number;
  readonly q: number;
}

const NOISE = 'The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.';
/** RULER's depths in percent: 40 even ones, rounded, as shares. */
const DEPTHS = Array.from({ length: 40 }, (_, i) => Math.round((100 * i) / 39) / 100);

const drawing = (draw: Random, words: readonly string[]): Readonly<Record<Kind, () => string>> => ({
  words: () => `${draw.pick(words)}-${draw.pick(words)}`,
  numbers: () => String(between(draw, 1_000_000, 9_999_999)),
  uuids: () => uuid(draw),
});

/** Puts statements, in order, at depths counted in lines. */
function atDepths(
  prose: readonly string[],
  statements: readonly string[],
  depths: readonly number[],
  between: string,
): string {
  const places = [...depths].sort((a, b) => a - b).map((depth) => Math.floor(prose.length * depth));
  return prose
    .concat('')
    .flatMap((sentence, i) => [...statements.filter((_, n) => places[n] === i), sentence])
    .filter((part) => part !== '')
    .join(between);
}

/** RULER's needle tasks: facts of keys and values in noise, prose or other facts. Words are taken from the text. */
export const needles =
  ({ haystack, keys, values, k, v, q }: NeedleArgs) =>
  ({ encode, sentences, tokens, draw }: Material): NewProblem => {
    const words = keys === 'words' || values === 'words' ? wordsOf('niah', sentences, 2) : [],
      make = drawing(draw, words),
      fact = (key: string, value: string): string => `One of the special magic ${values} for ${key} is: ${value}.`,
      names = distinct(Math.max(k, q), make[keys]),
      all = distinct(names.length * v, make[values]),
      facts = names.map((key, i) => ({ key, values: all.slice(i * v, (i + 1) * v) })),
      asked = facts.slice(0, q),
      query = listText(asked.map(({ key }) => key)),
      statements = shuffle(
        draw,
        facts.flatMap((one) => one.values.map((value) => fact(one.key, value))),
      ),
      depths = draw.sample(DEPTHS, statements.length),
      from = draw.below(sentences.length),
      maxNewTokens = 128,
      // distractors are drawn once, so that a longer haystack starts like a shorter one
      others: string[] = [];
    const one = q * v === 1,
      kind = one ? values.slice(0, -1) : values,
      [some, are, were] = one ? ['A', 'is', 'is'] : ['Some', 'are all', 'are'];
    const hay = (size: number): string => {
      if (haystack === 'essay') return atDepths(proseFrom('niah', sentences, from, size), statements, depths, ' ');
      while (haystack === 'needle' && others.length < size)
        others.push(
          fact(
            drawUntil(make[keys], (key) => !names.includes(key)),
            make[values](),
          ),
        );
      const rows = haystack === 'noise' ? Array.from({ length: size }, () => NOISE) : others.slice(0, size);
      return atDepths(rows, statements, depths, '\n');
    };
    const { context, question } = fit(`niah_${haystack}`, encode, { tokens, maxNewTokens }, (size) => ({
      context: `${some} special magic ${kind} ${were} hidden within the following text. Make sure to memorize it. I will quiz you about the ${kind} afterwards.\n${hay(size)}\n`,
      question: `What ${are} the special magic ${kind} for ${query} mentioned in the provided text? The special magic ${kind} for ${query} mentioned in the provided text ${were}`,
    }));
    return { context, question, answers: asked.flatMap((one) => one.values), grader: 'all', maxNewTokens };
  };

/** Makes a chain of assignments; returns the names that hold its value, in order of assignment. */
function chain(draw: Random, names: readonly string[]): { readonly value: string; readonly links: readonly string[] } {
  const value = String(between(draw, 10_000, 99_998));
  return {
    value,
    links: names.map((name, i) => (i === 0 ? `VAR ${name} = ${value}` : `VAR ${name} = VAR ${names[i - 1]}`)),
  };
}

/** RULER's variable tracking: one chain of four hops in noise, after an example. */
export function vt({ encode, tokens, draw }: Material): NewProblem {
  const hops = 4,
    maxNewTokens = 30,
    asked = (value: string): string =>
      `Question: Find all variables that are assigned the value ${value} in the text above.`,
    answer = (count: number, value: string): string =>
      ` Answer: According to the chain(s) of variable assignment in the text above, ${count} variables are assigned the value ${value}, they are: `,
    head = 'Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n',
    short = distinct(hops + 1, () => letters(draw, 3)),
    names = distinct(hops + 1, () => letters(draw, 5)),
    example = chain(draw, short),
    real = chain(draw, names),
    spread = draw.sample(DEPTHS, hops + 1);
  const text = (links: readonly string[], size: number, depths: readonly number[]): string =>
    atDepths(
      Array.from({ length: size }, () => NOISE),
      links.map((link) => `${link}.`),
      depths,
      '\n',
    );
  const shot = `${head}${text(example.links, 5, [0, 0.2, 0.4, 0.6, 0.8])}\n${asked(example.value)}${answer(hops + 1, example.value)}${short.join(' ')}\n\n`;
  const { context, question } = fit('vt', encode, { tokens, maxNewTokens }, (size) => ({
    context: `${shot}${head}${text(real.links, size, spread)}\n`,
    question: asked(real.value) + answer(hops + 1, real.value),
  }));
  return { context, question, answers: names, grader: 'all', maxNewTokens };
}

/** RULER's common words: ten frequent words among rare ones, after an example; no longer than the text has words. */
export function cwe({ encode, sentences, tokens, draw }: Material): NewProblem {
  const short = tokens < 4096,
    [often, seldom] = short ? [6, 1] : [30, 3],
    words = shuffle(draw, wordsOf('cwe', sentences, 80)),
    common = words.slice(0, 10),
    maxNewTokens = 120,
    head =
      'Below is a numbered list of words. In these words, some appear more often than others. Memorize the ones that appear most often.\n',
    asked =
      'Question: What are the 10 most common words in the above list? Answer: The top 10 words that appear most often in the list are:';
  const list = (
    frequent: readonly string[],
    rare: readonly string[],
    times: readonly [number, number],
    order: Random,
  ): string =>
    shuffle(order, [
      ...frequent.flatMap((word) => Array.from({ length: times[0] }, () => word)),
      ...rare.flatMap((word) => Array.from({ length: times[1] }, () => word)),
    ])
      .map((word, i) => `${i + 1}. ${word}`)
      .join(' ');
  const shown = words.slice(10, 20),
    example = `${head}${list(shown, words.slice(20, short ? 40 : 60), short ? [3, 1] : [10, 3], draw)}\n${asked} ${shown.map((word, i) => `${i + 1}. ${word}`).join(' ')}\n`,
    rest = words.slice(60);
  const { context, question } = fit('cwe', encode, { tokens, maxNewTokens, least: 4, most: rest.length }, (size) => ({
    context: `${example}${head}${list(common, rest.slice(0, size), [often, seldom], draw)}\n`,
    question: asked,
  }));
  return { context, question, answers: common, grader: 'all', maxNewTokens };
}

/** RULER's frequent words: made-up words with counts that fall as k^-2; the dots are the most frequent. */
export function fwe({ encode, tokens, draw }: Material): NewProblem {
  const words = distinct(Math.max(8, Math.floor(tokens / 50)), () =>
      letters(draw, 6, [...'abcdefghijklmnopqrstuvwxyz']),
    ),
    zeta = Math.PI ** 2 / 6,
    maxNewTokens = 50;
  const { context, question } = fit('fwe', encode, { tokens, maxNewTokens, least: 60 }, (size) => ({
    context: `Read the following coded text and track the frequency of each coded word. Find the three most frequently appeared coded words. ${shuffle(
      draw,
      ['...', ...words].flatMap((word, i) =>
        Array.from({ length: Math.floor(size / ((i + 1) ** 2 * zeta)) }, () => word),
      ),
    ).join(' ')}\n`,
    question:
      "Question: Do not provide any explanation. Please ignore the dots '....'. What are the three most frequently appeared words in the above coded text? Answer: According to the coded text above, the three most frequently appeared words are:",
  }));
  return { context, question, answers: words.slice(0, 3), grader: 'all', maxNewTokens };
}
