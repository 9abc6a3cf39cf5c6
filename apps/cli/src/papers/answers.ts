import { decode } from '@kv/models';
import type { Sequence } from '@kv/models';
import { retained } from '../needle/experiment.ts';
import type { Asked, Prompt, Question } from './prompts.ts';
import { forEach, mean, slotsNow } from './tried.ts';
import type { Bench, ByArm, Tried } from './tried.ts';

/** Every arm's answers. */
export function answered(
  bench: Bench,
  task: Asked,
  { documentIds, questions, valueTokens }: Prompt,
  tried: readonly Tried[],
): Promise<ByArm> {
  const aware = task.kind === 'needle' && task.mode === 'aware',
    right: (readonly number[] | undefined)[] = [];
  return forEach(
    bench,
    aware ? [...documentIds, ...questions[0].ids] : documentIds,
    {},
    tried,
    async (sequence, { arm }) => {
      const held = retained(sequence.kept(), valueTokens),
        slots: number[] = [];
      // Calls are a form that the embedded model was never trained on.
      if (bench.embedded && task.kind === 'credential') return { retained: held, slots: slotsNow(sequence) };
      let hit = 1;
      for (const [i, question] of questions.entries()) {
        const fork = questions.length > 1 ? sequence.fork() : sequence;
        try {
          if (!aware) await fork.append(question.ids);
          if (question.stop) slots.push(slotsNow(fork) + question.newTokens / 2);
          if (right[i] && (await says(fork, right[i]))) continue;
          const { text, tokens } = await greedy(fork, question, slots);
          if (!question.right(text)) hit = 0;
          else if (question.stop && arm.policy === 'full') right[i] = tokens;
        } finally {
          if (fork !== sequence) fork.destroy();
        }
      }
      return { hit, retained: held, slots: mean(slots) };
    },
  );
}

/** The likeliest answer; without a stop, so that every arm's cache is averaged over as many tokens. */
async function greedy(
  sequence: Sequence,
  { stop, newTokens }: Question,
  slots: number[],
): Promise<{ readonly text: string; readonly tokens: readonly number[] }> {
  const tokens: number[] = [];
  let text = '';
  for await (const chunk of decode(sequence, { maxNewTokens: newTokens, stop })) {
    text += chunk.text;
    if (chunk.token !== undefined) tokens.push(chunk.token);
    if (!stop) slots.push(slotsNow(sequence));
  }
  return { text, tokens };
}

const likeliest = (row: Float32Array): number => row.reduce((best, x, i) => (x > row[best] ? i : best), 0);

/**
 * Whether the likeliest answer begins with these tokens: they are fed as one block, each must be the likeliest of the
 * row before it.
 */
async function says(sequence: Sequence, tokens: readonly number[]): Promise<boolean> {
  const copy = sequence.fork(),
    [before] = copy.logits.slice(-1);
  try {
    await copy.append(tokens, { rows: tokens.length });
    return [before, ...copy.logits.slice(0, -1)].every((row, i) => likeliest(row) === tokens[i]);
  } finally {
    copy.destroy();
  }
}
