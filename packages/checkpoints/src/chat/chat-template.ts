import { KvError } from '@kv/core';
import { object, show, type JsonFields } from '../read/fields.ts';
import { fromConversation, globals, givenMessages, givenTools } from '../template/globals.ts';
import { Renderer } from '../template/render.ts';
import { namesIn, parseTemplate } from '../template/syntax.ts';
import { TemplateText } from '../template/text.ts';
import type { TemplateValue } from '../template/values.ts';
import { RenderWork } from '../template/render-limit.ts';
import { variablesFault, type TemplateVariables } from './template-variables.ts';

/** One turn. Templates may read more fields than these (`tool_calls`, `name`). */
export interface ChatMessage {
  /** Role, such as `'user'`; which ones exist depends on the template. */
  readonly role: string;
  /** The text of the turn. */
  readonly content: string;
  readonly [field: string]: unknown;
}

/** What a template gets in addition to the messages. */
export interface ChatOptions {
  /** Whether to end the text with the beginning of the assistant's answer. @defaultValue true */
  readonly addGenerationPrompt?: boolean;
  /**
   * Text of the special token that begins a text. A template read from a checkpoint fills in its own. @defaultValue
   * `''`
   */
  readonly bosToken?: string;
  /** Text of the special token that ends a text; likewise. @defaultValue `''` */
  readonly eosToken?: string;
  /** Function signatures as JSON. @defaultValue none */
  readonly tools?: readonly unknown[];
  /** Values of the template's own variables, such as `enable_thinking`; their texts are marked as the conversation's. @defaultValue none */
  readonly variables?: TemplateVariables | undefined;
}

/** A rendered conversation, with the ranges of its text that come from the conversation. */
export interface RenderedChat {
  /** The conversation in the model's format. */
  readonly text: string;
  /** `[from, to)` ranges of the text that come from the conversation, in UTF-16 units, in order. */
  readonly untrusted: readonly (readonly [number, number])[];
}

/** A chat template. Both calls throw a KvError with the template's own message if it rejects the conversation. */
export interface ChatTemplate {
  /** Renders a conversation in the format that the model was trained on. */
  (messages: readonly ChatMessage[], options?: ChatOptions): string;
  /** Renders it and marks the text that comes from the conversation, in which no control token may be read. */
  render(messages: readonly ChatMessage[], options?: ChatOptions): RenderedChat;
  /** The names that it reads, those of its own variables among them. @defaultValue any */
  readonly reads?: ReadonlySet<string>;
}

/**
 * Limits of a template: characters of source, and the sum of the squared lengths of its runs of white space, since the
 * library scans each run from each of its characters.
 */
const LIMITS = { source: 2 ** 18, spaces: 2 ** 26 } as const;

/**
 * Compiles a chat template: parsed by `@huggingface/jinja`, rendered as Jinja2 does in transformers, under limits.
 * @throws KvError if it does not parse
 */
export function chatTemplate(source: string, where: string): ChatTemplate {
  if (source.length > LIMITS.source)
    throw new KvError(where, `expected a chat template of at most ${LIMITS.source} characters, got ${source.length}`);
  let spaces = 0;
  for (const [run] of source.matchAll(/\s+/g)) spaces += run.length ** 2;
  if (spaces > LIMITS.spaces)
    throw new KvError(where, 'expected a chat template without thousands of spaces or lines in a row');
  const program = sentence(where, () => parseTemplate(source));
  return templateOf(
    (messages, { addGenerationPrompt = true, bosToken = '', eosToken = '', tools, variables = {} } = {}) =>
      sentence(where, () => {
        const fault = variablesFault(variables);
        if (fault !== undefined) throw new KvError(where, `variables of the chat template ${fault}`);
        const work = new RenderWork([messages, tools, variables]);
        const names = new Map<string, TemplateValue>([
          ...globals(work, (message) => refuse(message, where)),
          ['documents', null],
          ...Object.entries(variables).map(([name, value]) => [name, fromConversation(value)] as const),
          ['messages', givenMessages(messages)],
          ['tools', givenTools(tools)],
          ['add_generation_prompt', addGenerationPrompt],
          ['bos_token', new TemplateText(bosToken)],
          ['eos_token', new TemplateText(eosToken)],
        ]);
        const { text, spans } = new Renderer(work).render(program, names);
        return {
          text,
          untrusted: Array.from({ length: spans.length / 2 }, (_, i) => [spans[2 * i], spans[2 * i + 1]] as const),
        };
      }),
    namesIn(program),
  );
}

/** Makes a template from its render function and the names that it reads. */
function templateOf(render: ChatTemplate['render'], reads: ReadonlySet<string> | undefined): ChatTemplate {
  return Object.assign(
    (messages: readonly ChatMessage[], options?: ChatOptions): string => render(messages, options).text,
    { render, ...(reads && { reads }) },
  );
}

/** Where a checkpoint may keep its template; the first that has one is used. */
export interface ChatTemplateSources {
  /** Text of `chat_template.jinja`. */
  readonly jinja?: string | undefined;
  /** Text of `additional_chat_templates/tool_use.jinja`, which belongs to that. */
  readonly toolUse?: string | undefined;
  /** Contents of `tokenizer_config.json`: a template, or a list of named ones. */
  readonly config?: unknown;
  /** Contents of `chat_template.json`, where processors had theirs: the same field. */
  readonly processor?: unknown;
  /** Metadata of a GGUF file. */
  readonly metadata?: ReadonlyMap<string, unknown> | undefined;
}

/** Sources of a checkpoint's chat templates. */
interface TemplateTexts {
  /** That of every conversation. */
  readonly usual: string;
  /** That of conversations with functions, where it is another. */
  readonly toolUse?: string | undefined;
}

/**
 * Returns a checkpoint's chat template, with its special tokens filled in, or undefined if it has none. Of several by name
 * it is `tool_use` where functions are given, as in transformers and llama.cpp, else `default`.
 * @throws KvError if a template does not parse
 */
export function readChatTemplate(
  { jinja, toolUse, config, processor, metadata }: ChatTemplateSources,
  where: string,
): ChatTemplate | undefined {
  const fields: JsonFields = config == null ? {} : object(config, where, 'tokenizer_config.json'),
    legacy: JsonFields = processor == null ? {} : object(processor, where, 'chat_template.json');
  const texts =
    jinja === undefined
      ? (named(fields.chat_template, where) ?? named(legacy.chat_template, where) ?? ggufChatTemplates(metadata, where))
      : { usual: jinja, toolUse };
  if (texts === undefined) return undefined;
  const own = (name: 'bos' | 'eos'): string => {
    const token = fields[`${name}_token`];
    const text = typeof token === 'string' ? token : (token as JsonFields | null | undefined)?.content;
    if (typeof text === 'string') return text;
    const tokens = metadata?.get('tokenizer.ggml.tokens') as readonly unknown[] | undefined;
    return String(tokens?.[metadata?.get(`tokenizer.ggml.${name}_token_id`) as number] ?? '');
  };
  const usual = chatTemplate(texts.usual, where),
    calling = texts.toolUse === undefined ? usual : chatTemplate(texts.toolUse, where);
  const tokens = { bosToken: own('bos'), eosToken: own('eos') };
  return templateOf(
    (messages, { bosToken = tokens.bosToken, eosToken = tokens.eosToken, ...options } = {}) =>
      (options.tools?.length ? calling : usual).render(messages, { ...options, bosToken, eosToken }),
    usual.reads && calling.reads && new Set([...usual.reads, ...calling.reads]),
  );
}

/** Returns the sources of a GGUF file's chat templates, if it has one. @throws KvError if one is not text */
export function ggufChatTemplates(
  metadata: ReadonlyMap<string, unknown> | undefined,
  where: string,
): TemplateTexts | undefined {
  const texts = named(metadata?.get('tokenizer.chat_template'), where),
    toolUse = named(metadata?.get('tokenizer.chat_template.tool_use'), where)?.usual;
  return texts && { ...texts, ...(toolUse !== undefined && { toolUse }) };
}

function named(template: unknown, where: string): TemplateTexts | undefined {
  if (template == null) return undefined;
  if (typeof template === 'string') return { usual: template };
  const list = Array.isArray(template) ? template.map((entry: unknown) => object(entry, where, 'chat_template[]')) : [],
    of = (which: string): unknown => list.find(({ name }) => name === which)?.template,
    usual = of('default') ?? list[0]?.template,
    toolUse = of('tool_use');
  if (typeof usual === 'string' && (toolUse === undefined || typeof toolUse === 'string')) return { usual, toolUse };
  throw new KvError(where, `chat_template must be a string or a list of { name, template }, got ${show(template)}`);
}

function refuse(message: string, where: string): never {
  throw new KvError(where, `the chat template rejects the conversation: ${JSON.stringify(message.slice(0, 200))}`);
}

/** Rethrows any error of the library or the template as a KvError of one sentence. */
function sentence<T>(where: string, use: () => T): T {
  try {
    return use();
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(
      where,
      `the chat template cannot be rendered: ${(cause as Error).message.split('\n', 1)[0]?.slice(0, 200)}`,
    );
  }
}
