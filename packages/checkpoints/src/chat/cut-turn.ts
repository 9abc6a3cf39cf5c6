import { renderedPart } from './chat-ids.ts';
import type { ChatOptions, ChatTemplate, RenderedChat } from './chat-template.ts';

/** A user's turn, cut where its question begins. */
export interface CutTurn {
  /** What stands before the question: it can be read, and evicted, while the question is not known. */
  readonly context: RenderedChat;
  /** The question, and what the template writes after it. */
  readonly question: RenderedChat;
}

/**
 * Renders a text and a question about it as one turn of a user, cut where the question begins. A template may trim the
 * turn; undefined if it changes the question otherwise.
 * @throws KvError if the template rejects the turn
 */
export function cutTurn(
  template: ChatTemplate,
  context: string,
  question: string,
  options?: ChatOptions,
): CutTurn | undefined {
  const content = context + question,
    whole = template.render([{ role: 'user', content }], options),
    at = questionAt(whole, content, question);
  return at < 0
    ? undefined
    : { context: renderedPart(whole, 0, at), question: renderedPart(whole, at, whole.text.length) };
}

/**
 * Returns where the question begins in a text: it is the end of the content, which a template may trim; in one that
 * changes the content otherwise, the last text of the conversation that reads as the question; -1 for none.
 */
function questionAt({ text: all, untrusted }: RenderedChat, content: string, question: string): number {
  const ways = [
    [content, question],
    [content.trim(), question.trimEnd()],
    [question.trim(), question.trim()],
  ] as const;
  for (const [what, end] of ways)
    for (const [from, to] of untrusted.toReversed()) {
      // what the template itself says may read as the question does
      const at = all.slice(from, to).lastIndexOf(what);
      if (at >= 0) return from + at + Math.max(0, what.length - end.length);
    }
  return -1;
}
