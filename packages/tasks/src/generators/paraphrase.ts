import type { Random } from '../random.ts';
import { drawUntil } from '../values.ts';

/** A fact, and a question for it in other words. */
export interface ParaphrasedFact {
  readonly statement: string;
  /** What answers the question: an amount of five digits. */
  readonly value: string;
  /** From its line break to the last character before the answer. */
  readonly question: string;
}

/** A word of statements and its synonym, which questions have. */
type Synonyms = readonly [stated: string, asked: string];

const PEOPLE: readonly Synonyms[] = [
  ['physician', 'doctor'],
  ['attorney', 'lawyer'],
  ['instructor', 'teacher'],
  ['aviator', 'pilot'],
  ['monarch', 'king'],
  ['merchant', 'trader'],
  ['author', 'writer'],
  ['constable', 'policeman'],
];
const THINGS: readonly Synonyms[] = [
  ['automobile', 'car'],
  ['vessel', 'ship'],
  ['stallion', 'horse'],
  ['sofa', 'couch'],
  ['dwelling', 'house'],
  ['painting', 'picture'],
  ['timepiece', 'clock'],
  ['bicycle', 'bike'],
];
/** Verbs differ too: paid and spend, purchased and bought. */
const TEMPLATES = [
  {
    statement: 'The {person} paid $<value> for the {thing}.',
    question: 'How much did the {person} spend on the {thing}?',
    answer: 'the {person} spent $',
  },
  {
    statement: 'The {person} purchased the {thing} for $<value>.',
    question: 'What did the {thing} cost when the {person} bought it?',
    answer: 'the cost was $',
  },
];

/**
 * Draws a fact and a question that share no content word, so that a search for the question's words does not find the
 * fact. They share `the`, `for` and the like, and the sign `$` before the value.
 * @param absentFrom a text in which the value must not occur
 * @throws RangeError where it holds the values that there are
 */
export function paraphrasedFact(draw: Random, absentFrom: string): ParaphrasedFact {
  const template = draw.pick(TEMPLATES),
    person = draw.pick(PEOPLE),
    thing = draw.pick(THINGS),
    filled = (text: string, side: 0 | 1): string =>
      text.replaceAll('{person}', person[side]).replaceAll('{thing}', thing[side]);
  const value = drawUntil(
    () => String(10_000 + draw.below(90_000)),
    (amount) => !absentFrom.includes(amount),
  );
  return {
    statement: filled(template.statement, 0).replace('<value>', value),
    value,
    question: filled(`\nQuestion: ${template.question}\nAnswer: According to the text, ${template.answer}`, 1),
  };
}
