import type { ChatMessage } from '@kv/models';
import { textOf } from '../../protocol/conversation.ts';
import { Refusal } from '../../protocol/refusal.ts';
import type { RequestMessage } from './fields.ts';

/** The only role that may have each of these fields. */
const ROLES: Readonly<Partial<Record<keyof RequestMessage, string>>> = {
  refusal: 'assistant',
  annotations: 'assistant',
  reasoning_content: 'assistant',
  tool_calls: 'assistant',
  tool_call_id: 'tool',
};

/**
 * Returns the messages of a request as chat templates read them. Fields that this protocol's own answers carry are
 * accepted: labels are dropped.
 * @throws Refusal naming a field that the role does not have, or that it must have
 */
export const messagesOf = (messages: readonly RequestMessage[]): readonly ChatMessage[] =>
  messages.map((message, i) => {
    for (const [field, role] of Object.entries(ROLES))
      if (message[field as keyof RequestMessage] !== undefined && message.role !== role)
        throw new Refusal(`'messages[${i}].${field}' is expected in a message of the role '${role}' alone`, {
          param: `messages[${i}].${field}`,
        });
    const { role, content, name, tool_calls: made = [], tool_call_id: answers, reasoning_content } = message,
      { refusal = '' } = message,
      refused = typeof content === 'string' ? -1 : (content ?? []).findIndex(({ type }) => type === 'refusal');
    if (refused >= 0 && role !== 'assistant') {
      const param = `messages[${i}].content[${refused}].type`;
      throw new Refusal(`'${param}' must be 'text' in a message of the role '${role}', got 'refusal'`, { param });
    }
    if (refusal !== '' && textOf(content) !== '')
      throw new Refusal(`'messages[${i}].refusal' is expected in a message without content, got both`, {
        param: `messages[${i}].refusal`,
      });
    if (content === undefined && role !== 'assistant')
      throw new Refusal(`'messages[${i}].content' is expected, got none`, { param: `messages[${i}].content` });
    return {
      role: role === 'developer' ? 'system' : role,
      content: refusal || textOf(content), // what an answer said, whichever it is
      ...(name !== undefined && { name }),
      ...(reasoning_content !== undefined && { reasoning_content }),
      ...(made.length > 0 && { tool_calls: made }),
      ...(answers !== undefined && { tool_call_id: answers }),
    };
  });
