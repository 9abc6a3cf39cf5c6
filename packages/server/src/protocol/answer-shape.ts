import type { AnswerForm, Grammars } from './grammars.ts';
import { KvError } from '@kv/core';
import { answersOf, toolFormatOf } from '@kv/models';
import type { AnswerFormat, AnswerReader, AnswerStructure, ChatTemplate, Grammar, ToolFormat, ToolFunction } from '@kv/models';
import type { Asked } from './ask.ts';
import { Refusal } from './refusal.ts';

/** What answers to a request must look like, and how their text is read. */
export interface AnswerShape {
  readonly grammar?: Grammar | undefined;
  /** Begins to read an answer. @defaultValue all of it is text */
  readonly reader?: (() => AnswerReader) | undefined;
  /** Texts of special tokens that are part of an answer's text. */
  readonly marks: readonly string[];
}

/**
 * Makes the shapes of a model's answers. Where functions are offered, an answer is text with calls; calls alone if one
 * is required; calls alone or what the form says if there is a form. With the choice `none` the prompt still has the
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
  expectTools({ tools, toolChoice, names }: Asked): void {
    if (tools.length > 0 && !this.#tools)
      throw new Refusal(
        `'${names.tools}' is not supported, since the chat template of this model writes no calls in a form that is known here: start the server with one that does (--chat-template FILE)`,
        { param: names.tools },
      );
    const all = tools.map(({ name }) => name),
      twice = all.find((name, i) => all.indexOf(name) !== i);
    if (twice !== undefined)
      throw new Refusal(`'${names.tools}' must have names of their own, got '${twice}' twice`, { param: names.tools });
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
  async of(asked: Asked, prompt: string): Promise<AnswerShape> {
    const format = this.#template && answersOf(this.#template),
      marks = format?.marks ?? [],
      offered = asked.toolChoice === 'none' ? [] : asked.tools;
    return {
      grammar: await this.#grammar(asked, offered, { format, marks, prompt }),
      reader: format && (() => format.reader(offered, prompt)),
      marks,
    };
  }

  async #grammar(
    { form, toolChoice, parallel, names }: Asked,
    offered: readonly ToolFunction[],
    { format, marks, prompt }: Told,
  ): Promise<Grammar | undefined> {
    const object = form && (format ? { type: 'json_schema' as const, json_schema: schemaOf(form) } : undefined),
      said = object && format ? format.structure(object, prompt) : undefined,
      choice = form && toolChoice === 'auto' ? 'required' : toolChoice;
    const compiled = (structure: AnswerStructure): Promise<Grammar> =>
      this.#grammars.compile({ kind: 'structure', structure, marks });
    if (offered.length === 0)
      return form && refusing(names.form, () => (said ? compiled(said) : this.#grammars.compile(form)));
    const calls = (tools: readonly ToolFunction[]): AnswerStructure =>
      this.#tools!.structure(tools, choice, parallel, prompt); // expectTools
    try {
      const all = calls(offered);
      return await compiled(said && toolChoice === 'auto' ? { type: 'or', elements: [all, said] } : all);
    } catch (cause) {
      if (!KvError.is(cause)) throw cause;
      // names the first that fails by itself
      for (const [i, tool] of offered.entries())
        await refusing(names.parameters(i), () => compiled(this.#tools!.structure([tool], 'required', false, prompt)));
      if (said) await refusing(names.form, () => compiled(said));
      throw new Refusal(`'${names.tools}' cannot be held to: ${cause.message}`, { param: names.tools });
    }
  }
}

/** How a prompt and its answers are written. */
interface Told {
  readonly format: AnswerFormat | undefined;
  readonly marks: readonly string[];
  readonly prompt: string;
}

const schemaOf = (form: AnswerForm): object | boolean => (form.kind === 'schema' ? form.schema : { type: 'object' });

/** Runs what may throw a KvError about a field. @throws Refusal that names it */
async function refusing<T>(param: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw KvError.is(cause) ? new Refusal(`'${param}' cannot be held to: ${cause.message}`, { param }) : cause;
  }
}
