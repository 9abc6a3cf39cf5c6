import { KvError } from '@kv/core';

/** Values of the variables that a chat template reads besides the conversation, by name; any that JSON can hold. */
export type TemplateVariables = Readonly<Record<string, unknown>>;

/** Returns the names of variables that a chat template never reads. */
export const unreadVariables = (
  { reads }: { readonly reads?: ReadonlySet<string> },
  variables: TemplateVariables = {},
): readonly string[] => (reads ? Object.keys(variables).filter((name) => !reads.has(name)) : []);

/** @throws KvError for variables that a chat template never reads */
export function expectRead(template: Parameters<typeof unreadVariables>[0], variables?: TemplateVariables): void {
  const [unread] = unreadVariables(template, variables);
  if (unread !== undefined)
    throw new KvError(
      'chatTemplateKwargs',
      `expected variables that the model's chat template reads, got '${unread.slice(0, 60)}', which it never does`,
    );
}

/** Names that mean something else in every template. */
const TAKEN: ReadonlySet<string> = new Set([
  ...['messages', 'tools', 'add_generation_prompt', 'bos_token', 'eos_token', 'chat_template', 'tokenize'],
  ...['range', 'dict', 'namespace', 'joiner', 'cycler', 'strftime_now', 'raise_exception', 'loop', 'self'],
]);

/** Returns what is wrong with variables of a chat template, as the end of a sentence that names them, or undefined. */
export function variablesFault(variables: unknown): string | undefined {
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables))
    return 'must be an object of names and values, such as {"enable_thinking": false}';
  const names = Object.keys(variables),
    taken = names.find((name) => TAKEN.has(name)),
    odd = names.find((name) => !/^[A-Za-z_]\w*$/.test(name));
  if (taken !== undefined) return `must leave out ${taken}, which every chat template is given anyway`;
  if (odd !== undefined) return `must have names of letters, digits and _, got ${JSON.stringify(odd.slice(0, 60))}`;
  return undefined;
}

/**
 * Returns variables of a chat template that are given as an object, as JSON, or as `name=value,...`, where a value that is no
 * JSON is a text; undefined for anything else.
 */
export function readVariables(given: unknown): TemplateVariables | undefined {
  const read = meant(given);
  return variablesFault(read) === undefined ? (read as TemplateVariables) : undefined;
}

/** Returns what is wrong with names that were given, or undefined where what was given has no names. */
export function misreadVariables(given: unknown): string | undefined {
  const read = meant(given);
  return typeof read === 'object' ? variablesFault(read) : undefined;
}

const meant = (given: unknown): unknown => (typeof given === 'string' ? parsed(given.trim()) : given);

function parsed(text: string): unknown {
  if (text.startsWith('{')) return json(text);
  const pairs = text.split(',').map((pair) => /^\s*([^=\s]+)\s*=(.*)$/s.exec(pair));
  if (!pairs.every((pair) => pair !== null)) return undefined;
  return Object.fromEntries(
    pairs.map(([, name, value]) => {
      const read = json(value.trim());
      return [name, read === undefined ? value.trim() : read];
    }),
  );
}

function json(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
