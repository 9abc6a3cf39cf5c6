import type { AnswerStructure } from './structure.ts';

/** A function that a conversation offers to the model. */
export interface ToolFunction {
  /** Its name: letters, digits, `_`, `-` and `.`, 64 at most. */
  readonly name: string;
  /** What it does, for the model. */
  readonly description?: string;
  /** JSON schema of its arguments, an object. @defaultValue an object of any fields */
  readonly parameters?: object;
  /** Taken for OpenAI's sake; arguments always fit the schema. */
  readonly strict?: boolean;
}

/** Whether an answer may call functions, may not, must call one, or must call the one that is named. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string };

/** How a chat template writes calls of functions, and how answers in it are constrained and read. */
export interface ToolFormat {
  /** Name of the format, such as `hermes`. */
  readonly name: string;
  /**
   * Returns the structure that an answer must have so that each of its calls is of an offered function with arguments
   * that fit its schema.
   * @param parallel whether an answer may make several calls; it never does where the template writes one alone
   * @param prompt the rendered prompt, which may end within reasoning. @defaultValue as the template's prompts do
   * @throws KvError for a name that is not offered, or a schema that the format cannot be held to
   */
  structure(tools: readonly ToolFunction[], choice: ToolChoice, parallel: boolean, prompt?: string): AnswerStructure;
  /** Texts of special tokens that the format reads: an answer's decoder writes these out, and a grammar matches them. */
  readonly marks: readonly string[];
  /** Texts of special tokens that end an answer after a call, as the model's own end tokens do. */
  readonly ends: readonly string[];
  /** Returns a reader of one answer's text, in which the tokens of `marks` are written out. */
  reader(tools: readonly ToolFunction[], prompt?: string): AnswerReader;
}

/**
 * Reads an answer as it comes: however its text is cut, the parts are together the same. A call is reported once it is
 * whole, so that its arguments are JSON; what looks like one and is none, or is of a function that is not offered, is
 * text. White space around calls and reasoning is left out.
 */
export interface AnswerReader {
  /** Takes more of the answer's text and returns what is now certain. */
  push(text: string): readonly AnswerPart[];
  /** Returns what is left at the answer's end; a call that is not finished is not reported as one. */
  end(): readonly AnswerPart[];
}

/** A part of an answer. */
export type AnswerPart =
  /** Text for the user, or the model's reasoning. */
  | { readonly what: 'text' | 'reasoning'; readonly text: string }
  /** A call begins: its number in the answer, from 0, the function's name, and the id that the model gave it, if it did. */
  | { readonly what: 'call'; readonly call: number; readonly name: string; readonly id?: string }
  /** More of the arguments of a call: together they are JSON text of an object. */
  | { readonly what: 'arguments'; readonly call: number; readonly text: string };
