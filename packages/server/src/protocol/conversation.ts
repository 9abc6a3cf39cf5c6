import type { ChatMessage } from '@kv/models';
import { Refusal } from './refusal.ts';
import type { ChatRequest, RequestMessage } from './schema.ts';

/** Renders a conversation with a chat template. */
type Render = (messages: readonly ChatMessage[]) => string;

/** The only role that may have each of these fields. */
const ROLES: Readonly<Partial<Record<keyof RequestMessage, string>>> = {
  refusal: 'assistant',
  annotations: 'assistant',
  tool_calls: 'assistant',
  tool_call_id: 'tool',
};

/**
 * Returns the messages of a request as a chat template reads them. Fields that this protocol's own answers carry are
 * accepted: labels are dropped; tool calls and results go to the template, which must write them.
 * @throws Refusal naming a field that the role does not have, or that the template would leave out
 */
export function conversation({ messages }: ChatRequest, render: Render | undefined): readonly ChatMessage[] {
  const calls = messages.findIndex(({ tool_calls: made = [] }) => made.length > 0),
    results = messages.findIndex(({ role }) => role === 'tool');
  if (calls >= 0 || results >= 0) {
    const written = render ? writtenBy(render) : { calls: false, results: false },
      refused = (at: string): Refusal =>
        new Refusal(`'${at}' is not supported, since the chat template of this model does not write it`, { param: at });
    if (calls >= 0 && !written.calls) throw refused(`messages[${calls}].tool_calls`);
    if (results >= 0 && !written.results) throw refused(`messages[${results}].role`);
  }
  return messages.map((message, i) => {
    for (const [field, role] of Object.entries(ROLES))
      if (message[field as keyof RequestMessage] !== undefined && message.role !== role)
        throw new Refusal(`'messages[${i}].${field}' is expected in a message of the role '${role}' alone`, {
          param: `messages[${i}].${field}`,
        });
    const { role, content, name, tool_calls: made = [], tool_call_id: answers } = message;
    if (content === undefined && role !== 'assistant')
      throw new Refusal(`'messages[${i}].content' is expected, got none`, { param: `messages[${i}].content` });
    return {
      role: role === 'developer' ? 'system' : role,
      content: typeof content === 'object' ? content.map(({ text }) => text).join('') : (content ?? ''),
      ...(name !== undefined && { name }),
      ...(made.length > 0 && { tool_calls: made.map(called) }),
      ...(answers !== undefined && { tool_call_id: answers }),
    };
  });
}

/** Returns a tool call as templates expect it, its arguments parsed if they are a JSON object. */
function called({
  id,
  function: { name, arguments: text = '{}' },
}: NonNullable<RequestMessage['tool_calls']>[number]): object {
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
