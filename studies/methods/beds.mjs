// What plan.md says, as data: six beds of prompts and nineteen methods.
import { generatedProblem, heldOutBook, sentencesOf, tokensOf } from '@kv/tasks';
import { BEDS as CHOOSE, promptOf as chooseable } from '../choose/beds.mjs';

/** Prompts of a bed. */
export const PROMPTS = 200;

const sentences = sentencesOf(await heldOutBook());
/** A generated problem of `@kv/tasks` in 560 tokens, whose question is asked after the event. */
const generated =
  (task) =>
  ({ tokenizer: { encode } }, seed, i) => {
    const problem = generatedProblem(task, i, { encode, sentences, tokens: 560, seed }),
      { context, question, answers, grader, maxNewTokens, stop, document } = problem,
      at = context.indexOf(answers[0]),
      { ids, offsets } = encode(context);
    return {
      ...{ ids, question: encode(question, { special: false }).ids, answers, grader, answerTokens: maxNewTokens, stop },
      ...{ answerAt: tokensOf(offsets, at, at + answers[0].length), ...(document && { document }) },
    };
  };

const { inside, after, log, chains } = CHOOSE;
/** The beds: prompts, the model that reads them, how many in a row ask about one text, and the budget of all methods. */
export const BEDS = {
  inside,
  after,
  log,
  paraphrased: { model: 'given', budget: '25%', make: generated('paraphrased') },
  questions: { model: 'given', budget: '25%', together: 4, make: generated('questions') },
  chains,
};

/** Prompt i of a bed; where `../choose` has the bed too, its prompts come from a set of their own. */
export const promptOf = (model, bed, set, i) =>
  bed in CHOOSE
    ? chooseable(model, bed, `${set}-200`, i)
    : { document: `${bed}/${i}`, ...BEDS[bed].make(model, `methods/${set}/${bed}`, i), origin: `${bed}/${i}` };

/** Policies by what they are here: rows of the table, in its order. */
export const METHODS = {
  'of this repository': [
    'taFast',
    'attendedSentences',
    'outstandingSentences',
    'snapkv(window=16,kernel=17,pooling=max) | caote | topK',
  ],
  'of engines': ['recency', 'streaming', 'streamingRerotated'],
  'of papers, as kvpress has them': [
    'kvzipModelWide',
    'keydiff',
    'layerDefensivekv',
    'snapkv(window=16,kernel=17,pooling=max)',
    'adakv',
    'chunkkv',
    'compactor',
    'expectedAttention',
    'tova',
    'h2o',
    'cur',
  ],
  yardstick: ['random'],
};

/** The methods at the budget of a bed. */
export const candidatesIn = (_model, _form, bed) =>
  Object.values(METHODS)
    .flat()
    .map((policy) => {
      const { budget } = BEDS[bed];
      return { policy, budget, share: Number.parseFloat(budget) / 100, bytes: 1, cost: 0.1 };
    });
