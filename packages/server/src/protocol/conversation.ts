import type { ChatMessage } from '@kv/models';
import { Refusal } from './refusal.ts';

/** Renders a conversation with a chat template. */
type Render = (messages: readonly ChatMessage[]) => string;

/** A call in a conversation, in OpenAI's form. */
interface MadeCall {
  readonly id?: string;
  readonly function: { readonly name: string; readonly arguments?: string };
}
const callsOf = ({ tool_calls: made = [] }: ChatMessage): readonly MadeCall[] => made as readonly MadeCall[];

/**
 * Returns messages as a chat template reads them: tool calls and results go to the template, which must write them.
 * @param at what the client calls a message
 * @throws Refusal naming calls or results that the template would leave out
 */
export function conversation(
  { messages }: { readonly messages: readonly ChatMessage[] },
  render: Render | undefined,
  at: (i: number) => string = (i) => `messages[${i}]`,
): readonly ChatMessage[] {
  const calls = messages.findIndex((message) => callsOf(message).length > 0),
    results = messages.findIndex(({ role }) => role === 'tool');
  if (calls >= 0 || results >= 0) {
    const written = render ? writtenBy(render) : { calls: false, results: false },
      refused = (param: string): Refusal =>
        new Refusal(`'${param}' is not supported, since the chat template of this model does not write it`, { param });
    if (calls >= 0 && !written.calls) throw refused(`${at(calls)}.tool_calls`);
    if (results >= 0 && !written.results) throw refused(`${at(results)}.role`);
  }
  return messages.map((message) => {
    const { content = '' } = message,
      made = callsOf(message);
    return { ...message, content, ...(made.length > 0 && { tool_calls: made.map(called) }) };
  });
}

/** Returns a tool call as templates expect it, its arguments parsed if they are a JSON object. */
function called({ id, function: { name, arguments: text = '{}' } }: MadeCall): object {
  return { ...(id !== undefined && { id }), type: 'function', function: { name, arguments: objectOr(text) } };
}

function objectOr(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : text;
  } catch {
    return text;
  }
}

/** Whether a template writes tool calls and tool results, found by rendering one of each. */
function writtenBy(render: Render): { readonly calls: boolean; readonly results: boolean } {
  const ask = { role: 'user', content: 'a' },
    call = { id: 'callof123', type: 'function', function: { name: 'nameofit', arguments: { key: 'valueofit' } } },
    result = { role: 'tool', content: 'resultofit', tool_call_id: call.id };
  const text = [
    [ask, { role: 'assistant', content: '', tool_calls: [call] }, result],
    [ask, result],
  ].reduce((all, messages) => all + rendered(render, messages), '');
  return {
    calls: text.includes('nameofit') && text.includes('valueofit'),
    results: text.includes('resultofit'),
  };
}

/** Returns the rendered messages, or an empty text if the template rejects them. */
function rendered(render: Render, messages: readonly ChatMessage[]): string {
  try {
    return render(messages);
  } catch {
    return '';
  }
}
