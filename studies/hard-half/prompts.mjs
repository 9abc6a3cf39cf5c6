import { cpuRuntime, decode, loadModel, freeObservations } from '@kv/models';
import { heldOutBook, needle, sentencesOf } from '@kv/tasks';
import { greedy, linesOf } from '../lib/prompts-by-workers.mjs';
import { depthOf, FORMS, questionOf, seedOf } from './ways.mjs';

/** Returns a needle prompt of `tokens` tokens with our own question, which also begins the answer. */
export function promptOf(encode, sentences, { set, tokens, form, i }) {
  const made = (length) =>
    needle({ encode, sentences, tokens: length, depth: depthOf(i), seed: seedOf(set, tokens, form, i), form });
  const { key, questionIds: cue } = made(tokens),
    questionIds = encode(questionOf(form, key), { special: false }).ids;
  return { ...made(tokens - questionIds.length + cue.length), questionIds };
}

/** Creates a worker that calls `run` with the model of a file on one thread, the sentences and the job. */
export const answering = (file, run) => async () => {
  const model = await loadModel(file, { runtime: cpuRuntime({ exact: false, threads: 1 }) }),
    sentences = sentencesOf(await heldOutBook());
  return { engine: model.engine, run: (job) => run(model, sentences, job) };
};

/** Feeds the question and returns the sequence's answer. */
export async function answerTo(sequence, questionIds) {
  await sequence.append(questionIds);
  freeObservations(sequence);
  return greedy(decode, sequence);
}

/** Returns the prompts 0 to `count` of each form that are not in `results` yet. */
export function promptsLeft(results, count) {
  const done = new Set(linesOf(results).map(({ form, i }) => `${form}/${i}`));
  return Array.from({ length: count }, (_, i) => FORMS.map((form) => ({ form, i })))
    .flat()
    .filter(({ form, i }) => !done.has(`${form}/${i}`));
}
