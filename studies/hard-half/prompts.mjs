import { load } from './packages.mjs';
import { depthOf, questionOf, seedOf } from './ways.mjs';

const { needle } = await load('tasks');

/** A needle prompt of `tokens` tokens whose question is ours: it asks, and begins the answer. */
export function promptOf(encode, sentences, { set, tokens, form, i }) {
  const made = (length) =>
    needle({ encode, sentences, tokens: length, depth: depthOf(i), seed: seedOf(set, tokens, form, i), form });
  const { key, questionIds: cue } = made(tokens),
    questionIds = encode(questionOf(form, key), { special: false }).ids;
  return { ...made(tokens - questionIds.length + cue.length), questionIds };
}
