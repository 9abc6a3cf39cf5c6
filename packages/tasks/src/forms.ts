import type { Random } from './random.ts';
import { drawUntil } from './values.ts';

/** Form of a fact: an 8-character code or a number, of 7 digits or as many as are asked for. */
export type NeedleForm = 'code' | 'number';
/** Style of a question. `cued`: the prompt ends just before the value. `free`: it ends in a question and "Answer:". */
export type QuestionStyle = 'cued' | 'free';

/** A fact that can be hidden in a text and asked for. */
export interface Fact {
  readonly key: string;
  readonly value: string;
  readonly statement: string;
}

interface Form {
  readonly statement: string;
  readonly cue: string;
  readonly question: string;
  value(random: Random, digits: number): string;
}

const DIGITS = '0123456789';
const draw = (random: Random, from: string, length: number): string =>
  Array.from({ length }, () => random.pick([...from])).join('');

/** The templates that the embedded model was trained on: tools/embedded/FORMS.md. */
const FORMS: Readonly<Record<NeedleForm, Form>> = {
  code: {
    statement: 'The {k} code is: {v}.',
    cue: 'The {k} code is:',
    question: 'What is the {k} code?',
    value: (random) => draw(random, `ABCDEFGHIJKLMNOPQRSTUVWXYZ${DIGITS}`, 8),
  },
  number: {
    statement: 'The special magic {k} number is: {v}.',
    cue: 'The special magic {k} number is:',
    question: 'What is the special magic {k} number?',
    value: (random, digits) => draw(random, DIGITS.slice(1), 1) + draw(random, DIGITS, digits - 1),
  },
};

/** Keys that occur in no training fact of the embedded model. */
export const HELD_OUT_KEYS: readonly string[] = (
  'Paris Rome London Berlin Madrid Vienna Lisbon Oslo Cairo Tokyo Delhi Lima Havana Dublin Athens Prague Warsaw Zurich Geneva Milan Naples ' +
  'Boston Denver Chicago Seattle Austin Toronto Sydney Kyoto Seoul Nairobi Tunis Quito Bogota Hanoi Manila Helsinki Riga Tallinn Sofia ' +
  'Nightingale Aurora'
).split(' ');

/**
 * Draws `count` facts of one form with distinct keys and values. In half of the draws of codes, the
 * first key is "secret".
 *
 * @param digits of a number
 * @throws RangeError where the text holds the values that there are
 */
export function drawFacts(
  random: Random,
  form: NeedleForm,
  count: number,
  absentFrom: string,
  digits = 7,
): readonly Fact[] {
  const keys = random.sample(HELD_OUT_KEYS, count);
  if (form === 'code' && random.next() < 0.5) keys[0] = 'secret';
  const values = new Set<string>();
  while (values.size < count)
    values.add(
      drawUntil(
        () => FORMS[form].value(random, digits),
        (value) => !values.has(value) && !absentFrom.includes(value),
      ),
    );
  return [...values].map((value, i) => ({
    key: keys[i],
    value,
    statement: fill(FORMS[form].statement, keys[i]).replace('{v}', value),
  }));
}

/** Returns the question after the document, from its line break to the last character before the answer. */
export function ask(form: NeedleForm, key: string, asking: QuestionStyle): string {
  return asking === 'cued'
    ? `\n${fill(FORMS[form].cue, key)}`
    : `\nQuestion: ${fill(FORMS[form].question, key)}\nAnswer:`;
}

const fill = (template: string, key: string): string => template.replace('{k}', key);
