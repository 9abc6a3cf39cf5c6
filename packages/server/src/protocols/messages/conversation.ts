import { writeExactJson } from '@kv/models';
import type { ChatMessage } from '@kv/models';
import { textOf } from '../../protocol/conversation.ts';
import { Refusal } from '../../protocol/refusal.ts';
import { joined } from '../../protocol/text-join.ts';
import type { Block, RequestMessage } from './fields.ts';

/** The role that may have each kind of block. */
const ROLES: Readonly<Partial<Record<Block['type'], RequestMessage['role']>>> = {
  tool_use: 'assistant',
  thinking: 'assistant',
  tool_result: 'user',
};

/**
 * Returns the messages of a request in the form that chat templates read: results of calls are messages of their own.
 * @throws Refusal naming a block that its role does not have, and for messages that end with one of the assistant
 */
export function conversationOf(
  messages: readonly RequestMessage[],
  system?: Parameters<typeof textOf>[0],
): readonly ChatMessage[] {
  if (messages.at(-1)?.role === 'assistant')
    throw new Refusal(
      "'messages' must end with a message of the role 'user', since an answer cannot be begun for the model here",
      { param: 'messages' },
    );
  for (const [i, { role, content }] of messages.entries())
    for (const [j, { type }] of typeof content === 'string' ? [] : content.entries())
      if (ROLES[type] !== undefined && ROLES[type] !== role) {
        const param = `messages[${i}].content[${j}].type`;
        throw new Refusal(`'${param}' must be a block of the role '${role}', got '${type}'`, { param });
      }
  return [
    ...(system === undefined ? [] : [{ role: 'system', content: textOf(system) }]),
    ...messages.flatMap(chatMessages),
  ];
}

/** Returns what a message is in that form. */
export function chatMessages({ role, content }: RequestMessage): readonly ChatMessage[] {
  if (typeof content === 'string') return [{ role, content }];
  return role === 'user' ? userMessages(content) : [assistantMessage(content)];
}

/** Texts of a user next to one another are one message, each result of a call is one. */
function userMessages(blocks: readonly Block[]): readonly ChatMessage[] {
  const messages: ChatMessage[] = [];
  for (const block of blocks)
    if (block.type === 'tool_result') {
      const said = textOf(block.content);
      messages.push({
        role: 'tool',
        content: block.is_error && !/^error\b/i.test(said) ? `Error: ${said}` : said,
        tool_call_id: block.tool_use_id,
      });
    } else if (block.type === 'text') {
      const before = messages.at(-1);
      if (before?.role === 'user') messages.splice(-1, 1, { ...before, content: joined([before.content, block.text]) });
      else messages.push({ role: 'user', content: block.text });
    }
  return messages;
}

function assistantMessage(blocks: readonly Block[]): ChatMessage {
  const calls = blocks.flatMap((block) =>
      block.type === 'tool_use'
        ? [{ id: block.id, type: 'function', function: { name: block.name, arguments: writeExactJson(block.input) } }]
        : [],
    ),
    thought = blocks.flatMap((block) => (block.type === 'thinking' ? [block.thinking] : []));
  return {
    role: 'assistant',
    content: joined(blocks.flatMap((block) => (block.type === 'text' ? [block.text] : []))),
    ...(thought.length > 0 && { reasoning_content: joined(thought) }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}
