// One document of plan.md: five facts in a stretch of the novel, their questions, and the prose that follows.
import { buildHaystack, drawFacts, heldOutBook, paraphrasedFact, random, sentencesOf, tokensOf } from '@kv/tasks';
import { questionOf } from '../lib/facts.mjs';
import { askedIds } from '../lib/reading.mjs';
import { AFTER, depthOf, DOCUMENTS, seedOf, TOKENS } from './cells.mjs';

/** Facts whose value is a word, asked for in the words that state them. */
const WORDS = {
  colour: {
    about: 'The colour of the old lighthouse is',
    asked: 'What is the colour of the old lighthouse?',
    values: 'green yellow orange purple pink grey brown crimson turquoise'.split(' '),
  },
  name: {
    about: 'The name of the engineer is',
    asked: 'What is the name of the engineer?',
    values: 'Montgomery Fernandez Kowalski Nakamura Petersen Okafor Lindqvist Rossi Schneider Ivanova'.split(' '),
  },
  fruit: {
    about: 'The favourite fruit of the captain is',
    asked: 'What is the favourite fruit of the captain?',
    values: 'banana mango papaya pear peach melon coconut pineapple plum cherry'.split(' '),
  },
};
/** The fact whose depth is set, and the four that are asked for in their own words. */
export const NEEDLE = 'code',
  DIRECT = [NEEDLE, ...Object.keys(WORDS)];

/** Returns the sentences that documents are of, and the text of the others. */
export async function book() {
  const sentences = sentencesOf(await heldOutBook()),
    cut = Math.floor(DOCUMENTS * sentences.length);
  return { sentences: sentences.slice(0, cut), rest: sentences.slice(cut).join(' ') };
}

function word(draw, kind) {
  const { about, asked, values } = WORDS[kind],
    value = draw.pick(values);
  return { kind, value, statement: `${about} ${value}.`, question: `\nQuestion: ${asked}\nAnswer: ${about}` };
}

/** Returns document i of a set: the first drawn one whose facts all stand before its end. */
export function promptOf(encode, sentences, set, i) {
  for (let attempt = 0; ; attempt++) {
    const drawn = draft(encode, sentences, random(`${seedOf(set, i)}/${attempt}`), i);
    if (drawn.facts.every(({ end }) => end <= TOKENS)) return drawn;
  }
}

function draft(encode, sentences, draw, i) {
  const prose = sentences.join(' '),
    [code] = drawFacts(draw, NEEDLE, 1, prose),
    facts = [
      { kind: NEEDLE, value: code.value, statement: code.statement, question: questionOf(NEEDLE, code.key) },
      ...Object.keys(WORDS).map((kind) => word(draw, kind)),
      { kind: 'paraphrase', ...paraphrasedFact(draw, prose) },
    ],
    hidden = facts.map(({ kind, statement: text }) => ({
      text,
      depth: (kind === NEEDLE ? depthOf(i) : draw.next()) * (TOKENS / (TOKENS + AFTER)),
    })),
    text = buildHaystack(sentences, hidden, TOKENS + AFTER, encode, draw),
    { ids, offsets } = encode(text);
  return {
    document: ids.slice(0, TOKENS),
    after: ids.slice(TOKENS),
    facts: facts.map(({ kind, value, statement, question }) => {
      const from = text.indexOf(statement),
        at = from + statement.lastIndexOf(value);
      return {
        // the question of a paraphrase ends in the sign before its value
        ...{ kind, value, ...askedIds(encode, question, kind === 'paraphrase' ? value : ` ${value}`) },
        positions: tokensOf(offsets, at, at + value.length),
        end: tokensOf(offsets, from, from + statement.length).at(-1) + 1,
      };
    }),
  };
}
