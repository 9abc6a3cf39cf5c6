import type { ChatMessage, ChatOptions } from './chat-template.ts';
import type { Tokenizer } from '../tokenizer/interface.ts';

/** A conversation as text. */
type Render = (messages: readonly ChatMessage[], options: ChatOptions) => string;

/** Placeholder for an answer. */
const ANSWER = '\u2063answer\u2063';

/**
 * Returns the special token that a chat template writes after an answer, such as `<|im_end|>`; configurations often
 * name only the token that ends a whole text. Returns undefined if the template writes none there or does not render.
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

/** Renders a template, or returns `''` if it does not parse or render: reporting that is left to a chat. */
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
