// What plan.md says, as data: four beds of prompts, the candidates, and the seeds.
import { candidatesOf } from '@kv/evaluation/choose';
import {
  agentDomains,
  agentTrace,
  generatedProblem,
  heldOutBook,
  needle,
  NEEDLE_NEW_TOKENS,
  NEEDLE_STOP,
  sentencesOf,
  tokensOf,
} from '@kv/tasks';

/** Prompts of a bed: the population of which choices draw. */
export const POOL = 100;
/** Prompts of a choice, of which half choose and half confirm, and its seeds. */
export const DRAWN = 40,
  SEEDS = 10;
/** Policies in all, as `kv choose` draws them. */
const MOST = 60;

const sentences = sentencesOf(await heldOutBook()),
  /** Ten depths in turn, from 5 to 95 % of the text. */
  depthOf = (i) => ((i % 10) + 0.5) / 10;

/** A fact in a novel, and the question for it: read before the event, or asked after it. */
const needles =
  (ask) =>
  ({ tokenizer: { encode } }, seed, i) => {
    const { documentIds, questionIds, value, valueTokens } = needle({
      ...{ encode, sentences, form: 'number', tokens: 512, depth: depthOf(i), seed },
    });
    return {
      ids: ask === 'inside' ? [...documentIds, ...questionIds] : documentIds,
      ...(ask === 'after' && { question: questionIds }),
      ...{ answers: [value], grader: 'any', answerAt: valueTokens, answerTokens: NEEDLE_NEW_TOKENS, stop: NEEDLE_STOP },
    };
  };
/** An agent's log of twelve turns, and the question for the credential that it was told in one of the first four. */
function log({ tokenizer: { encode } }, seed, i) {
  const { turns, facts } = agentTrace({ domain: agentDomains[i % agentDomains.length], turns: 12, seed }),
    { value, question } = facts.find(({ kind }) => kind === 'credential'),
    text = turns.map(({ user, rest }) => user + rest).join(''),
    at = text.indexOf(value),
    { ids, offsets } = encode(text);
  return {
    ...{ ids, question: encode(question, { special: false }).ids, answers: [value], grader: 'any' },
    ...{ answerAt: tokensOf(offsets, at, at + value.length), answerTokens: 28, stop: ['\n'] },
  };
}
/** A problem of some twenty steps, whose solution the model writes. */
function chain({ tokenizer: { encode } }, seed, i) {
  const problem = generatedProblem('chain', i, { encode, sentences, tokens: 351, seed }),
    { context, question, answers, grader, maxNewTokens, stop } = problem;
  return { ids: encode(context + question).ids, answers, grader, answerTokens: maxNewTokens, stop };
}

/** The beds: prompts, the model that reads them, and the budget of all candidates. */
export const BEDS = {
  inside: { model: 'given', budget: '25%', make: needles('inside') },
  after: { model: 'given', budget: '25%', make: needles('after') },
  log: { model: 'given', budget: '25%', make: log },
  chains: { model: 'reasoner', budget: '80%', make: chain },
};

/** Prompt i of a bed; those of the set `confirm` were never run before the plan was committed. */
export const promptOf = (model, bed, set, i) => ({
  ...BEDS[bed].make(model, `choose/${set}/${bed}/${i}`, i),
  ...{ document: `${bed}/${i}`, origin: `${bed}/${i}` },
});

/** The candidates of a bed: those of `kv choose`, at its budget. */
export async function candidatesIn(model, form, bed, prompts) {
  const lengths = prompts.map(({ ids }) => ids.length),
    { candidates } = await candidatesOf(model, { lengths, form, budgets: [BEDS[bed].budget], most: MOST });
  return candidates;
}
