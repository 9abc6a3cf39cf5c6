import { fit } from '../fit.ts';
import type { Material, NewProblem } from '../material.ts';
import { proseFrom } from '../sentences.ts';
import type { Random } from '../random.ts';
import { code } from '../values.ts';
import { atDepths } from './credentials.ts';

/** What a document says, and how it is asked for. */
interface Said {
  readonly text: string;
  readonly depth: number;
  readonly asked: string;
  readonly begun: string;
  readonly value: string;
}

/** Makes the problem of one of several statements of a document, which is the same for all of them. */
function oneOf(what: string, { encode, sentences, tokens, draw, part }: Material, said: readonly Said[]): NewProblem {
  const maxNewTokens = 16,
    questions = said.map(({ asked, begun }) => `\nQuestion: ${asked}\nAnswer: ${begun}`),
    lengths = questions.map((question) => encode(question).ids.length),
    longest = questions[lengths.indexOf(Math.max(...lengths))],
    from = draw.below(sentences.length),
    { context } = fit(what, encode, { tokens, maxNewTokens }, (size) => ({
      context: atDepths(proseFrom(what, sentences, from, size), said),
      question: longest,
    }));
  return {
    context,
    question: questions[part],
    answers: [said[part].value],
    grader: 'any',
    maxNewTokens,
    stop: ['"', '\n'],
  };
}

/** Draws a value, from words that a text has not, if there are such. */
type Draw = (draw: Random, absentFrom: string) => string;
type Fact = readonly [asked: string, begun: string, value: Draw];
const word =
  (values: string): Draw =>
  (draw, text) => {
    const all = values.split(' '),
      absent = all.filter((value) => !text.includes(value.toLowerCase()));
    return draw.pick(absent.length > 0 ? absent : all);
  };
const FACTS: readonly Fact[] = [
  ['What is the code of the gate?', 'The code of the gate is', (draw) => code(draw, 8)],
  [
    'What is the colour of the old lighthouse?',
    'The colour of the old lighthouse is',
    word('green yellow orange purple pink grey brown crimson turquoise'),
  ],
  [
    'What is the name of the engineer?',
    'The name of the engineer is',
    word('Montgomery Fernandez Kowalski Nakamura Petersen Okafor Lindqvist Rossi Schneider Ivanova'),
  ],
  [
    'What is the favourite fruit of the captain?',
    'The favourite fruit of the captain is',
    word('banana mango papaya pear peach melon coconut pineapple plum cherry'),
  ],
];

const proseOf = ({ sentences }: Material): string => sentences.join(' ').toLowerCase();

/** Four facts of one document, asked for one by one, each in the words that state it. */
export function questions(material: Material): NewProblem {
  const { draw } = material,
    prose = proseOf(material);
  return oneOf(
    'questions',
    material,
    FACTS.map(([asked, begun, of]) => {
      const value = of(draw, prose);
      return { text: `${begun} ${value}.`, depth: draw.next(), asked, begun, value };
    }),
  );
}

type Rule = readonly [text: string, asked: string, begun: string, value: Draw];
const RULES: readonly Rule[] = [
  [
    'Always end letters with the word "{v}".',
    'With which word do you end letters?',
    'I always end letters with the word "',
    word('falcon otter badger heron tiger dolphin rabbit eagle beaver turtle'),
  ],
  [
    'Always write in the colour "{v}".',
    'In which colour do you write?',
    'I always write in the colour "',
    word('amber silver violet scarlet golden ivory copper crimson purple green'),
  ],
  [
    'Always send reports to the office in "{v}".',
    'To the office in which city do you send reports?',
    'I always send reports to the office in "',
    word('Lisbon Oslo Vienna Cairo Lima Dakar Hanoi Quito Riga Athens'),
  ],
];

/** Three instructions that a document begins with, asked for one by one. */
export function instructions(material: Material): NewProblem {
  const prose = proseOf(material);
  return oneOf(
    'instructions',
    material,
    RULES.map(([text, asked, begun, of]) => {
      const value = of(material.draw, prose);
      return { text: text.replace('{v}', value), depth: 0, asked, begun, value };
    }),
  );
}

/** How many problems are of one document. */
export const PARTS: Readonly<Record<string, number>> = { questions: FACTS.length, instructions: RULES.length };
