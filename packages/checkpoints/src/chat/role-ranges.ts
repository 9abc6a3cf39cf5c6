import type { ChatMessage } from './chat-template.ts';

/** Parts of a conversation that have names: what stands before the first turn, the tools' schemas, the first question. */
export const promptRoles = ['system', 'tools', 'first-user'] as const;
/** The name of a part of a conversation. */
export type PromptRole = (typeof promptRoles)[number];

/** Characters `[from, to)`. */
type Range = readonly [from: number, to: number];
/** Renders messages, with the tools or without. */
type Render = (messages: readonly ChatMessage[], withTools: boolean) => string;

/** Characters that stand for a text in a rendered conversation, of which it contains one at most in part. */
const MARKS = ['\uE000', '\uE001', '\uE002'];

/**
 * Returns where the named parts of a conversation stand in its rendered text, each found by rendering the conversation
 * without it; undefined for one that it does not have. `system` is all that stands before the first turn that is no system
 * message, a text of the template itself included, without the tools; `tools` is all that a template writes because there
 * are tools; `first-user` is the content of the first message of a user.
 * @param text the rendered conversation
 */
export function roleRanges(
  render: Render,
  messages: readonly ChatMessage[],
  text: string,
  withTools: boolean,
): Readonly<Record<PromptRole, readonly Range[]>> {
  const contentOf = (index: number): Range | undefined => {
    const content = messages[index]?.content ?? '',
      mark = MARKS.find((each) => !content.includes(each));
    if (content === '' || mark === undefined) return undefined;
    const other = messages.map((message, i) => (i === index ? { ...message, content: mark } : message));
    return differing(text, render(other, withTools));
  };
  const turn = contentOf(messages.findIndex(({ role, content }) => !SYSTEM.has(role) && content !== '')),
    tools = withTools ? differing(text, render(messages, false)) : undefined,
    user = contentOf(messages.findIndex(({ role }) => role === 'user'));
  return {
    system: turn ? without([0, turn[0]], tools) : [],
    tools: tools ? [tools] : [],
    'first-user': user ? [user] : [],
  };
}
const SYSTEM: ReadonlySet<string> = new Set(['system', 'developer']);

/** Returns the part of `text` that another text does not have at that place, if there is one. */
function differing(text: string, other: string): Range | undefined {
  const most = Math.min(text.length, other.length);
  let [from, after] = [0, 0];
  while (from < most && text[from] === other[from]) from++;
  while (after < most - from && text.at(-1 - after) === other.at(-1 - after)) after++;
  return from < text.length - after ? [from, text.length - after] : undefined;
}

/** Returns the parts of a range outside another. */
function without([from, to]: Range, gap: Range = [to, to]): readonly Range[] {
  const parts: readonly Range[] = [
    [from, Math.min(to, gap[0])],
    [Math.max(from, gap[1]), to],
  ];
  return parts.filter(([start, end]) => end > start);
}
