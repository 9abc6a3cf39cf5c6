import type { ChatMessage } from '@kv/models';
import { textOf } from '../../protocol/conversation.ts';
import { joined } from '../../protocol/text-join.ts';
import type { Item } from './fields.ts';

/** Returns items as messages in the form that chat templates read: what one answer thought, said and called is one message. */
export function messagesOf(items: readonly Item[]): readonly ChatMessage[] {
  const messages: ChatMessage[] = [];
  /** Adds to the answer that is being put together, or begins one where a field is there already. */
  const answer = (field: string, value: unknown, join: (before: unknown) => unknown): void => {
    const last = messages.at(-1);
    if (last?.role === 'assistant' && !(field === 'reasoning_content' && (last.content !== '' || last.tool_calls)))
      messages[messages.length - 1] = { ...last, [field]: last[field] === undefined ? value : join(last[field]) };
    else messages.push({ role: 'assistant', content: '', [field]: value });
  };
  for (const item of items)
    switch (item.type) {
      case 'function_call': {
        const made = {
          id: item.call_id,
          type: 'function',
          function: { name: item.name, arguments: item.arguments },
        };
        answer('tool_calls', [made], (before) => [...(before as readonly object[]), made]);
        break;
      }
      case 'function_call_output':
        messages.push({ role: 'tool', content: textOf(item.output), tool_call_id: item.call_id });
        break;
      case 'reasoning': {
        const { content = [], summary = [] } = item,
          thought = textOf(content.length > 0 ? content : summary);
        if (thought !== '') answer('reasoning_content', thought, (before) => joined([before as string, thought]));
        break;
      }
      default: {
        const said = textOf(item.content);
        if (item.role === 'assistant') answer('content', said, (before) => joined([before as string, said]));
        else messages.push({ role: item.role === 'developer' ? 'system' : item.role, content: said });
      }
    }
  return messages;
}
