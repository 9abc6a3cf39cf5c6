import { KvError } from '@kv/core';
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
 * are tools; `first-user` is the content of the first message of a user. A template that cannot be rendered without tools
 * does not tell the first two apart: both are all that stands before the first turn.
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
    user = contentOf(messages.findIndex(({ role }) => role === 'user')),
    start: readonly Range[] = turn ? [[0, turn[0]]] : [],
    bare = withTools ? renderedBare(render, messages) : text,
    tools = bare === undefined ? start : added(text, bare);
  return {
    system: bare === undefined ? start : tools.reduce(without, start),
    tools,
    'first-user': user ? [user] : [],
  };
}

/** Renders messages without tools; undefined for a template that takes none without. */
function renderedBare(render: Render, messages: readonly ChatMessage[]): string | undefined {
  try {
    return render(messages, false);
  } catch (cause) {
    if (KvError.is(cause)) return undefined;
    throw cause;
  }
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

/** Characters by which a text is found again after what was added before it. */
const ANCHOR = 32;

/** Returns the parts that `text` has in addition to another, which it holds in order but for what differs at its end. */
function added(text: string, other: string): readonly Range[] {
  const all = differing(text, other),
    parts: Range[] = [];
  if (all === undefined) return parts;
  const end = all[1],
    most = other.length - (text.length - end);
  for (let [from, at] = [all[0], all[0]]; from < end; ) {
    // what comes next of the other may not reach into its common end
    const next = at < most ? text.slice(from, end).indexOf(other.slice(at, Math.min(at + ANCHOR, most))) : -1,
      to = next < 0 ? end : from + next;
    parts.push([from, to]);
    for (from = to; from < end && at < most && text[from] === other[at]; at++) from++;
  }
  return parts;
}

/** Returns the parts of ranges outside another. */
const without = (ranges: readonly Range[], gap: Range): readonly Range[] =>
  ranges
    .flatMap(([from, to]): readonly Range[] => [
      [from, Math.min(to, gap[0])],
      [Math.max(from, gap[1]), to],
    ])
    .filter(([from, to]) => to > from);
