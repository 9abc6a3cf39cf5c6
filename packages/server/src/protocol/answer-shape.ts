import type { AnswerForm, Grammars } from '@kv/grammars';
import { KvError } from '@kv/core';
import { answersOf, toolFormatOf } from '@kv/models';
import type {
  AnswerReader,
  AnswerStructure,
  ChatTemplate,
  Grammar,
  ToolChoice,
  ToolFormat,
  ToolFunction,
} from '@kv/models';
import type { AskTerms } from './ask.ts';
import { Refusal } from './refusal.ts';

/** What answers to a request must look like, and how their text is read. */
export interface AnswerShape {
  readonly grammar?: Grammar | undefined;
  /** Begins to read an answer. @defaultValue all of it is text */
  readonly reader?: (() => AnswerReader) | undefined;
  /** Texts of special tokens that are part of an answer's text. */
  readonly marks: readonly string[];
  /** Texts of special tokens that end an answer, in addition to the model's end tokens. */
  readonly ends: readonly string[];
}

/** Types of JSON that are no object. */
const OTHERS: readonly unknown[] = ['array', 'string', 'number', 'integer', 'boolean', 'null'];

/**
 * Makes the shapes of a model's answers. Where functions are offered, an answer is text with calls; calls alone if one
 * is required; one call or what the form says if there is a form. With the choice `none` the prompt still has the
 * functions, so that the conversation goes on from its cache, and whatever the model writes is text.
 */
export class AnswerShapes {
  readonly #template: ChatTemplate | undefined;
  readonly #tools: ToolFormat | undefined;
  readonly #grammars: Grammars;

  constructor(template: ChatTemplate | undefined, grammars: Grammars) {
    [this.#template, this.#grammars] = [template, grammars];
    this.#tools = template && toolFormatOf(template);
  }

  /** Checks tools but for their schemas. @throws Refusal naming what cannot be honoured */
  expectTools({ tools, toolChoice, names }: Pick<AskTerms, 'tools' | 'toolChoice' | 'names'>): void {
    if (tools.length > 0 && !this.#tools)
      throw new Refusal(
        `'${names.tools}' is not supported, since the chat template of this model writes no calls in a form that is known here: start the server with one that does (--chat-template FILE)`,
        { param: names.tools },
      );
    const all = tools.map(({ name }) => name),
      twice = all.find((name, i) => all.indexOf(name) !== i);
    if (twice !== undefined)
      throw new Refusal(`'${names.tools}' must have names of their own, got '${twice}' twice`, { param: names.tools });
    for (const [i, { parameters }] of tools.entries()) {
      const { type } = (parameters ?? {}) as { readonly type?: unknown },
        param = `${names.parameters(i)}.type`;
      if (OTHERS.includes(type)) throw new Refusal(`'${param}' must be 'object', got '${type as string}'`, { param });
    }
    const wanted = typeof toolChoice === 'object' ? toolChoice.name : undefined;
    if (wanted === undefined ? toolChoice === 'required' && tools.length === 0 : !all.includes(wanted))
      throw new Refusal(
        `'${names.toolChoice}' is expected to name a function of '${names.tools}', got ${wanted === undefined ? 'no functions' : `'${wanted}'`}`,
        { param: names.toolChoice },
      );
  }

  /**
   * @param prompt the end of the rendered prompt, which may begin reasoning
   * @throws Refusal naming a schema that answers cannot be held to
   */
  async of(asked: AskTerms, prompt: string): Promise<AnswerShape> {
    const format = this.#template && answersOf(this.#template),
      offered = asked.toolChoice === 'none' ? [] : asked.tools.map(called);
    const written = {
      marks: format?.marks ?? [],
      ends: offered.length > 0 ? (this.#tools?.ends ?? []) : [],
    };
    const json = asked.form && jsonOf(asked.form),
      structures: Structures = {
        said: json && (format?.structure(json, prompt) ?? json),
        calls: (tools, choice, parallel) => this.#tools!.structure(tools, choice, parallel, prompt), // expectTools
        compile: (structure) => this.#grammars.compile({ kind: 'structure', structure, ...written }),
      };
    return {
      grammar: await grammarOf(asked, offered, structures),
      reader: format && (() => format.reader(offered, prompt)),
      ...written,
    };
  }
}

/** Returns a function as it is called: without parameters that are named, with none. */
function called(tool: ToolFunction): ToolFunction {
  const { type = 'object', properties = {}, ...more } = (tool.parameters ?? {}) as Readonly<Record<string, unknown>>,
    says = Object.keys(more).filter((key) => !['$schema', 'title', 'description', 'required'].includes(key));
  return type !== 'object' || says.length > 0 || Object.keys(properties as object).length > 0
    ? tool
    : { ...tool, parameters: { type: 'object', properties: {}, additionalProperties: false } };
}

/** What answers to one prompt may be. */
interface Structures {
  /** What an answer says by the form that was asked for. */
  readonly said: AnswerStructure | undefined;
  calls(tools: readonly ToolFunction[], choice: ToolChoice, parallel: boolean): AnswerStructure;
  compile(structure: AnswerStructure): Promise<Grammar>;
}

/** Compiles what answers may be; undefined where they may be any text. */
async function grammarOf(
  { toolChoice, parallel, names }: AskTerms,
  offered: readonly ToolFunction[],
  { said, calls, compile }: Structures,
): Promise<Grammar | undefined> {
  if (offered.length === 0) return said && refusing(names.form, () => compile(said));
  try {
    if (!said || toolChoice !== 'auto') return await compile(calls(offered, toolChoice, parallel));
    // one call, since xgrammar takes no list of tags next to something else
    return await compile({ type: 'or', elements: [calls(offered, 'required', false), said] });
  } catch (cause) {
    if (!KvError.is(cause)) throw cause;
    // named is the first that fails by itself
    for (const [i, tool] of offered.entries())
      await refusing(names.parameters(i), async () => compile(calls([tool], 'required', false)));
    if (said) await refusing(names.form, () => compile(said));
    throw new Refusal(`'${names.tools}' cannot be held to: ${cause.message}`, { param: names.tools });
  }
}

/** JSON that fits a form. */
const jsonOf = (form: AnswerForm): AnswerStructure => ({
  type: 'json_schema',
  json_schema: form.kind === 'schema' ? form.schema : { type: 'object' },
});

/** Runs what may throw a KvError about a field. @throws Refusal that names it */
async function refusing<T>(param: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw KvError.is(cause) ? new Refusal(`'${param}' cannot be held to: ${cause.message}`, { param }) : cause;
  }
}
