// What plan.md says, as data: stored forms, policies, budgets and prompts.

/** How kept slots are stored: the form of the cache, and a demotion after the policy if there is one. */
export const ARMS = [
  { arm: 'f16', cache: 'f16' },
  { arm: 'q8', cache: 'q8' },
  { arm: 'q4', cache: 'q4' },
  { arm: 'levels', cache: 'q8', levels: 'levels(q8=0.25,q4=0.75)' },
];
/** Forms in which everything is kept. */
export const WHOLE = ['f16', 'q8', 'k8v4', 'q4'];
/** How many times fewer bytes than the full cache takes in f16. */
export const TIMES = [2, 4, 8, 16, 32];
export const POLICIES = [
  'snapkv(window=16,kernel=17,pooling=max) | topK',
  'h2o | topK',
  'tova | topK',
  'outstandingSentences',
  'taFast(reach=6)', // its default when the plan was written
];
/** The name of a policy in results and tables. */
export const short = (policy) => policy.split(/[ (]/)[0];
/** Tokens of a document, and of the prose after it that is read for the loss. */
export const TOKENS = 1024,
  AFTER = 16;

/** Seed of a prompt: those of the set `confirm` were never run before the plan was committed. */
export const seedOf = (set, form, i) => `equal-bytes/${set}/${form}/${i}`;
/** Ten depths in turn, from 5 % to 95 % of the document. */
export const depthOf = (i) => (((i % 10) + 0.5) / 10) * (TOKENS / (TOKENS + AFTER));
