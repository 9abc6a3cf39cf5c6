import { candidatesOf, choiceSentences, choose, readPrompts, rowOf } from '@kv/evaluation/choose';
import type { Budget, Model } from '@kv/models';
import { budgetText } from '@kv/core/engine';

/** A policy that was chosen, or would be now. */
export interface TextChoice {
  readonly sentences: readonly string[];
  /** Absent where nothing was measured. */
  readonly policy?: string;
  readonly done: boolean;
}

/** Policies that are tried, and minutes that it may take. */
const MOST = 24,
  MINUTES = 2;
/** The text is cut into this many parts, whose tokens are within these bounds: half of the parts choose. */
const PARTS = 8,
  TOKENS = { least: 48, most: 512 };

/**
 * Chooses the policy that loses least of a text in a budget; the text is cut into parts, and reported as it goes. @throws
 * KvError for a text that is too short
 */
export async function chooseFor(
  model: Model,
  text: string,
  given: Budget,
  { signal, onChoice }: { readonly signal: AbortSignal; readonly onChoice: (chosen: TextChoice) => void },
): Promise<void> {
  const budget = typeof given === 'object' ? (budgetText(given) as Exclude<Budget, object>) : given,
    { length } = model.tokenizer.encode(text).ids,
    textTokens = Math.min(TOKENS.most, Math.max(TOKENS.least, Math.floor(length / PARTS))),
    prompts = readPrompts([{ name: 'text', text }], model, { textTokens }),
    lengths = prompts.map(({ ids }) => ids.length),
    { candidates } = await candidatesOf(model, {
      ...{ lengths, form: model.cacheForm, budgets: [budget], most: MOST },
      device: model.engine.includes('webgpu'),
    });
  const chosenOf = (choice: Parameters<typeof rowOf>[0]): TextChoice => {
    const row = rowOf(choice);
    return { sentences: choiceSentences(choice), ...(row && { policy: row.policy }), done: false };
  };
  const choice = await choose(model, prompts, {
    ...{ candidates, goal: { budget }, minutes: MINUTES, answerTokens: 16, signal },
    onProgress: (progress) => onChoice(chosenOf(progress.choice)),
  });
  onChoice({ ...chosenOf(choice), done: true });
}
