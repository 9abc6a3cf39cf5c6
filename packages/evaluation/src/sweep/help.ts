import { generatedTasks } from '@kv/tasks';

/** An example of a sweep file that runs in a minute. */
export const sweepExample = `{
  "models": ["embedded"],
  "policies": ["full", "streaming(sinks=4)", "keydiff", "compactor"],
  "tasks": [
    { "task": "niah_single_1", "tokens": 448, "problems": 2 },
    { "task": "perplexity", "tokens": 256, "problems": 2 }
  ],
  "budgets": ["25%", 96],
  "maxNewTokens": 16
}`;

/**
 * Help for the generation fields of sweeps and plans: one line per field, and `- ` before each of several forms. Lines
 * are not wrapped.
 */
export const generationHelp = `mode          "aware": the question is in the prompt before the eviction; "agnostic": it comes after ["aware"]
every         tokens between two events while an answer is generated, 1 to 1048576 [no events]
block         tokens of a block that the prompt passes in, 1 to 1048576 [the whole prompt]
maxNewTokens  longest answer, 1 to 65536 [what problems say]
temperature   0 is greedy, to 100 [0]
topP          above 0, to 1 [1]`;

/** Help for the fields of a problem file, in the same form. */
export const problemFields =
  'a path from this file: problems as JSON rows or a JSON array of { id, context, question, answers, grader, maxNewTokens }, with a document where several ask about one, or as MATH, GSM8K, RULER, LongEval, LongBench, CoQA, SQuAD and lost-in-the-middle publish theirs';

/** Help for every field of a sweep file. */
export const sweepFields = `models        any of
                - "embedded", a folder, a .gguf file, a name of the Hugging Face hub
                - { "name": NAME, "model": one of these }: rows then have that name
policies      texts, as --policy has them; one that evicts nothing is asked once, without a budget
tasks         any of
                - ${problemFields}
                - { "task": NAME, "tokens": N, "problems": N, "seed": N from 0 [0] }, NAME one of ${generatedTasks.join(' ')}
                - { "task": "perplexity", "tokens": N, "problems": N, "text": a path from this file [a book], "read": N below tokens [half] }: windows of "tokens" tokens, the last of which are read over a cache that the others fill
budgets       any of
                - slots a layer and KV head, from 1
                - shares of the prompt such as "25%", or of its bytes in a form such as "25% of f16"
                - bytes of the whole cache such as "64MiB" (B, KiB, MiB or GiB)
caches        how caches are stored, any of f32, f16, q8, k8v4 and q4: every policy at every budget in each of them [f32]
seeds         whole numbers from 0: one sample of each for every problem [0]
${generationHelp}
part          "dev" or "confirm": one side of kv protocol's split of the ids [both]
contrasts     any of { "policy": one of policies, "against": another, "caches": two of caches [each form] }: these two are compared on every model, task and budget that both have, in one form, or the first in the first of two forms with the second in the second; what evicts nothing is compared with every budget. Contrasts add no runs [none]
match         { "policy": one of policies, "within": above 0, to .05 [0.01], "bytes": "mean" or "peak" [slots] }: every policy is given the budget at which its mean cache is that of this one, or with bytes its mean or peak bytes, what it records included, in the first of caches; budgets are then slots or bytes. A mean cache is the slots of a layer and KV head over the tokens of an answer, and shortfall the right answers less those of that policy at the same mean cache or bytes`;
