import type { Sequence } from '@kv/models';
import { greedy, keptTokens, mean, retainedShare, slotsNow, using } from '@kv/evaluation/shared';
import type { ByArm } from './jobs.ts';
import type { Asked, Prompt } from './prompts.ts';
import { forEach } from './tried.ts';
import type { PaperBench, Tried } from './tried.ts';

/** Returns every arm's answers. */
export function answered(
  bench: PaperBench,
  task: Asked,
  { documentIds, questions, valueTokens }: Prompt,
  tried: readonly Tried[],
): Promise<ByArm> {
  const aware = 'mode' in task && task.mode === 'aware',
    right: (readonly number[] | undefined)[] = [];
  const ids = aware ? [...documentIds, ...questions[0].ids] : documentIds;
  const block = task.kind === 'needle' ? task.block : undefined;
  return forEach(bench, ids, { block }, tried, async (sequence, { arm }) => {
    const kept = sequence.kept(),
      held = { retained: retainedShare(kept, valueTokens), keptTokens: keptTokens(kept, valueTokens) },
      slots: number[] = [];
    // the embedded model was never trained on these forms
    if (bench.embedded && (task.kind === 'credential' || task.kind === 'generated'))
      return { ...held, slots: slotsNow(sequence) };
    let hit = 1;
    for (const [i, question] of questions.entries())
      await using(sequence.fork(), async (fork) => {
        if (!aware) await fork.append(question.ids);
        if (question.stop) slots.push(slotsNow(fork) + question.maxNewTokens / 2);
        if (right[i] && (await says(fork, right[i]))) return;
        // without a stop every arm's cache is averaged over equally many tokens
        const { text, tokens } = await greedy(fork, question, () => {
          if (!question.stop) slots.push(slotsNow(fork));
        });
        if (!question.right(text)) hit = 0;
        else if (question.stop && arm.policy === 'full') right[i] = tokens;
      });
    return { hit, ...held, slots: mean(slots) };
  });
}

const likeliest = (row: Float32Array): number => row.reduce((best, x, i) => (x > row[best] ? i : best), 0);

/**
 * Whether the greedy answer begins with these tokens: they are fed as one block, and each must be the argmax of the row
 * before it.
 */
const says = (sequence: Sequence, tokens: readonly number[]): Promise<boolean> =>
  using(sequence.fork(), async (copy) => {
    const before = (await copy.logits()).at(-1)!; // its question was fed
    await copy.append(tokens, { rows: tokens.length });
    return [before, ...(await copy.logits()).slice(0, -1)].every((row, i) => likeliest(row) === tokens[i]);
  });
