import { Environment, parse, tokenize } from '@huggingface/jinja';
import { KvError } from '@kv/core';
import { object, show, type Fields } from './checkpoint/fields.ts';
import { limited } from './template-work.ts';

/** One turn; templates may look at more fields than these (`tool_calls`, `name`). */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  readonly [field: string]: unknown;
}

/** What a template is given besides the messages. */
export interface ChatOptions {
  /** Whether the text ends with the beginning of the assistant's answer (default true). */
  readonly addGenerationPrompt?: boolean;
  /** The text of the special tokens, `''` where there is none; a template read from a checkpoint knows its own. */
  readonly bosToken?: string;
  readonly eosToken?: string;
  /** Function signatures as JSON. */
  readonly tools?: readonly unknown[];
}

/**
 * A conversation as the text that a model was trained on. @throws KvError with what the template says against the
 * conversation.
 */
export type ChatTemplate = (messages: readonly ChatMessage[], options?: ChatOptions) => string;

/**
 * The most that a template may be: characters of source, the squares of the lengths of its runs of white space, which
 * the library looks at from each of their characters, and items of a range and characters of the form of a date.
 */
const LIMITS = { source: 2 ** 18, spaces: 2 ** 26, range: 100_000, date: 2 ** 8 } as const;

/** A chat template, rendered by `@huggingface/jinja` under limits. @throws KvError if it does not parse. */
export function chatTemplate(source: string, where: string): ChatTemplate {
  if (source.length > LIMITS.source)
    throw new KvError(where, `expected a chat template of at most ${LIMITS.source} characters, got ${source.length}`);
  let spaces = 0;
  for (const [run] of source.matchAll(/\s+/g)) spaces += run.length ** 2;
  if (spaces > LIMITS.spaces)
    throw new KvError(
      where,
      'expected a chat template without thousands of spaces or lines in a row, got one with them',
    );
  const program = sentence(where, () => parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })));
  return (messages, { addGenerationPrompt = true, bosToken = '', eosToken = '', tools } = {}) =>
    sentence(where, () => {
      const environment = new Environment();
      const values = {
        ...{ true: true, false: false, none: null, True: true, False: false, None: null },
        ...{
          range,
          strftime_now: (format: unknown) => strftime(new Date(), format),
          raise_exception: (message: unknown) => refuse(message, where),
        },
        ...{
          messages,
          tools: tools ?? null,
          documents: null,
          add_generation_prompt: addGenerationPrompt,
          bos_token: bosToken,
          eos_token: eosToken,
        },
      };
      for (const [name, value] of Object.entries(values)) environment.set(name, value);
      return String(limited(environment, [messages, tools]).run(program).value);
    });
}

/** Where a checkpoint keeps its template: the first of these that has one. */
export interface ChatTemplateSources {
  /** The text of `chat_template.jinja`. */
  readonly jinja?: string | undefined;
  /** The contents of `tokenizer_config.json`: a template, or a list of named ones of which `default` is taken. */
  readonly config?: unknown;
  /** Metadata of a GGUF file. */
  readonly metadata?: ReadonlyMap<string, unknown> | undefined;
}

/**
 * The chat template of a checkpoint with its own special tokens filled in, if it has one. @throws KvError if it does
 * not parse.
 */
export function readChatTemplate(
  { jinja, config, metadata }: ChatTemplateSources,
  where: string,
): ChatTemplate | undefined {
  const fields: Fields = config == null ? {} : object(config, where, 'tokenizer_config.json');
  const source = jinja ?? named(fields.chat_template, where) ?? named(metadata?.get('tokenizer.chat_template'), where);
  if (source === undefined) return undefined;
  const own = (name: 'bos' | 'eos'): string => {
    const token = fields[`${name}_token`];
    const text = typeof token === 'string' ? token : (token as Fields | null | undefined)?.content;
    if (typeof text === 'string') return text;
    const tokens = metadata?.get('tokenizer.ggml.tokens') as readonly unknown[] | undefined;
    return String(tokens?.[metadata?.get(`tokenizer.ggml.${name}_token_id`) as number] ?? '');
  };
  const template = chatTemplate(source, where);
  const tokens = { bosToken: own('bos'), eosToken: own('eos') };
  return (messages, options) => template(messages, { ...tokens, ...options });
}

function named(template: unknown, where: string): string | undefined {
  if (template == null || typeof template === 'string') return template ?? undefined;
  const list = Array.isArray(template) ? template.map((entry: unknown) => object(entry, where, 'chat_template[]')) : [];
  const found = (list.find(({ name }) => name === 'default') ?? list[0])?.template;
  if (typeof found === 'string') return found;
  throw new KvError(where, `chat_template must be a string or a list of { name, template }, got ${show(template)}`);
}

/** Python's `range`, of as many items as Jinja's sandbox allows. */
function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  const length = Math.max(0, Math.ceil((to - from) / step));
  if (!(length <= LIMITS.range)) throw new Error(`a range of ${length} items`);
  return Array.from({ length }, (_, i) => from + i * step);
}

function strftime(now: Date, format: unknown): string {
  if (typeof format !== 'string' || format.length > LIMITS.date)
    throw new Error(`a date in a form of other than ${LIMITS.date} characters at most`);
  const two = (number: number): string => String(number).padStart(2, '0');
  const english = (options: Intl.DateTimeFormatOptions): string => now.toLocaleDateString('en-US', options);
  const parts: Readonly<Record<string, () => string>> = {
    d: () => two(now.getDate()),
    m: () => two(now.getMonth() + 1),
    Y: () => String(now.getFullYear()),
    H: () => two(now.getHours()),
    M: () => two(now.getMinutes()),
    S: () => two(now.getSeconds()),
    b: () => english({ month: 'short' }),
    B: () => english({ month: 'long' }),
    a: () => english({ weekday: 'short' }),
    A: () => english({ weekday: 'long' }),
  };
  return format.replace(/%([a-zA-Z])/g, (whole, letter: string) => parts[letter]?.() ?? whole);
}

function refuse(message: unknown, where: string): never {
  throw new KvError(
    where,
    `expected a conversation that the chat template accepts, got its answer ${JSON.stringify(typeof message === 'object' ? 'a list or a map' : String(message).slice(0, 200))}`,
  );
}

/** Whatever the library or the template throws, as one sentence. */
function sentence<T>(where: string, use: () => T): T {
  try {
    return use();
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(
      where,
      `expected a chat template that renders, got ${(cause as Error).message.split('\n', 1)[0]?.slice(0, 200)}`,
    );
  }
}
