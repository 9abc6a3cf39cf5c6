import type { Model } from '@kv/models';
import { plain } from '../plain.ts';

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * Returns what to print once a server listens: its addresses, a request to paste, and how a request names its own
 * policy.
 */
export function startLines(
  address: string,
  name: string,
  { engine, chatTemplate }: Pick<Model, 'engine' | 'chatTemplate'>,
  { policy, keys, fixedPolicy }: { readonly policy: string; readonly keys: boolean; readonly fixedPolicy: boolean },
): string {
  const chats = chatTemplate?.() !== undefined,
    said = 'The river was wide. The secret code is: XK7M9P2Q. The secret code is:',
    body = {
      model: name,
      ...(chats
        ? { messages: [{ role: 'user', content: 'What is the capital of France?' }] }
        : { prompt: said, stop: ['.'] }),
      temperature: 0,
      max_tokens: 16,
    },
    headers = [...(keys ? ['authorization: Bearer KEY'] : []), 'content-type: application/json'];
  return plainLines(
    `${name} on ${engine}; ${policy === '' || policy === 'full' ? 'keeps every token: --policy and --budget bound the caches' : `policy ${policy}`}; Ctrl-C ends`,
    `  API   ${address}/v1`,
    `  page  ${address}/`,
    `  try   curl ${address}/v1/${chats ? 'chat/completions' : 'completions'} ${headers.map((header) => `-H ${quoted(header)}`).join(' ')} -d ${quoted(JSON.stringify(body))}`,
    ...(fixedPolicy
      ? []
      : [
          `  a request names its own policy in its field "policy", such as "policy": "outstandingSentences", "budget": "25%"`,
        ]),
  );
}
const plainLines = (...lines: readonly string[]): string => lines.map((line) => `${plain(line)}\n`).join('');

/** Filters a server's log to warnings and errors, for a terminal. */
export const warningsOf = (out: { write(text: string): unknown }): { write(text: string): void } => ({
  write(line) {
    if ((JSON.parse(line) as { level: number }).level >= 40) out.write(line);
  },
});
