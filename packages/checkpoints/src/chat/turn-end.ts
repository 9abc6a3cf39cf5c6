import type { ChatMessage, ChatOptions } from './chat-template.ts';
import type { Tokenizer } from '../tokenizer/interface.ts';

/** A conversation as text. */
type Render = (messages: readonly ChatMessage[], options: ChatOptions) => string;

/** Stands for an answer. */
const ANSWER = '\u2063answer\u2063';

/**
 * The special token that a chat template writes after an answer, such as `<|im_end|>`; configurations often name only
 * the end of a whole text.
 * Undefined for a template that has none there, or that does not render.
 */
export function turnEnd(
  template: () => Render | undefined,
  { specials }: Pick<Tokenizer, 'specials'>,
): number | undefined {
  const text = rendered(template),
    at = text.lastIndexOf(ANSWER);
  if (at < 0) return undefined;
  const after = text.slice(at + ANSWER.length).trimStart();
  const [longest] = [...specials.keys()]
    .filter((special) => special !== '' && after.startsWith(special))
    .sort((a, b) => b.length - a.length);
  return longest === undefined ? undefined : specials.get(longest);
}

/** A template that does not parse or render is a chat's to refuse. */
function rendered(template: () => Render | undefined): string {
  try {
    return (
      template()?.(
        [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: ANSWER },
        ],
        { addGenerationPrompt: false },
      ) ?? ''
    );
  } catch {
    return '';
  }
}
