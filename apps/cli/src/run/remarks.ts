import type { GenerateResult, Model } from '@kv/models';
import { SUGGESTED } from '../model-source.ts';

/** Codes as the embedded model was trained to find them. */
const CODE = /[A-Z0-9]{6,10}/g;

/** Returns remarks on an answer for stderr, a line each: why it is empty, or why it cannot be good. */
export function remarks(
  { text, tokens, report }: Pick<GenerateResult, 'text' | 'tokens' | 'report'>,
  prompt: string,
  { chatTemplate }: Pick<Model, 'chatTemplate'>,
  { model, raw }: { readonly model: string; readonly raw: boolean },
): string {
  if (text.trim() === '' && report.finish !== 'length' && report.finish !== 'aborted')
    return `the answer is empty: ${ENDS[report.finish]} after ${tokens.length} ${tokens.length === 1 ? 'token' : 'tokens'}${raw && chatTemplate?.() ? `; the model is trained to chat: leave --raw out` : ''}\n`;
  if (model === 'embedded' && ![...text.matchAll(CODE)].some(([code]) => prompt.includes(code)))
    return `the embedded model is trained only to find codes that stand in a prompt; for language: --model ${SUGGESTED}\n`;
  return '';
}
const ENDS = {
  eos: 'the model ended it',
  stop: 'a text of --stop ended it',
  context: "the model's context was full",
} as const;
