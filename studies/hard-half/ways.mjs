// What plan.md, plan-2.md (stage 5) and plan-3.md (stages 5 and 6) say, as data: policies, budgets, prompts.

/** The composition found on development prompts, as in the first plan; the second plan's is the default. */
const OURS = 'outstandingSentences(kind=max)';
const BESIDE = ['compactor', 'kvzip'];

export const SHARES = ['25%', '10%', '5%'];
/** The stages in order: on the first ten prompts of each form every policy, then ours first and the others after it. */
export const STAGES = [
  { stage: 0, from: 0, to: 10, policies: [OURS, ...BESIDE] },
  { stage: 1, from: 10, to: 100, policies: [OURS] },
  { stage: 2, from: 10, to: 100, policies: BESIDE },
  { stage: 3, from: 100, to: 200, policies: [OURS] },
  { stage: 4, from: 100, to: 200, policies: BESIDE },
  { stage: 5, from: 0, to: 100, policies: ['outstandingSentences(kind=mean)'] },
  { stage: 6, from: 0, to: 10, policies: BESIDE },
];

export const FORMS = ['number', 'code'];
/** Seed of a prompt: those of the set `confirm` were never run before the plan was committed. */
export const seedOf = (set, tokens, form, i) => `hard-half/${set}/${tokens}/${form}/${i}`;
/** Ten depths in turn, from 5 % to 95 % of the prose. */
export const depthOf = (i) => ((i % 10) + 0.5) / 10;
const QUESTIONS = {
  number: (key) => `\nQuestion: What is the special magic ${key} number?\nAnswer: The special magic ${key} number is`,
  code: (key) => `\n\nQuestion: What is the ${key} code?\nAnswer: According to the text, "The ${key} code is:`,
};
/** The question and the beginning of its answer, as RULER asks. */
export const questionOf = (form, key) => QUESTIONS[form](key);
