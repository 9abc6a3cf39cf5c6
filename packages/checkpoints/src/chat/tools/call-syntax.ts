import type { Mark } from '../marked-text.ts';
import type { Incoming, Reading } from './incoming.ts';
import type { AnswerStructure, AnswerTag } from './structure.ts';
import type { ToolFunction } from './tool-format.ts';

/** A call that was read: arguments are the JSON text of an object. */
export interface ReadCall {
  readonly name: string;
  readonly arguments: string;
  /** Nine letters and digits, where the format has ids and the answer one of these. */
  readonly id?: string | undefined;
}

/** A call of an earlier answer. */
export interface GivenCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** How one format writes calls. */
export interface CallSyntax {
  readonly name: string;
  /** Texts that begin calls, none of which begins another. */
  readonly triggers: readonly string[];
  /**
   * How calls begin where they begin an answer alone, and are text elsewhere: the tag first, then what may announce it. A
   * space is any white space or none.
   */
  readonly first?: readonly string[];
  /** Texts that may follow a call and are left out. */
  readonly closers: readonly string[];
  /** Special tokens among these texts, and those that end an answer. */
  readonly marks: readonly string[];
  readonly ends: readonly string[];
  /**
   * Reads what follows a trigger, and reports each call once it is whole.
   * @param report takes a call; returns false for a function that is not offered
   * @returns whether all of it was calls
   */
  read(
    input: Incoming,
    report: (call: ReadCall) => boolean,
    tools: ReadonlyMap<string, ToolFunction>,
  ): Reading<boolean>;
  /** The trigger that the tag begins with, where it is not the first. */
  readonly begins?: string;
  /**
   * Returns the tag of a call, or of all calls of an answer: one for all functions, so that a grammar of it shares what
   * their schemas have in common.
   * @param alone whether calls are all that the answer has, rather than begin at triggers in its text
   * @throws KvError for what cannot be expressed
   */
  tag(tools: readonly ToolFunction[], parallel: boolean, alone: boolean): AnswerTag;
  /** Text between two tags. */
  readonly separator: string;
  /** Writes calls of an earlier answer, for templates that do not. */
  write?(calls: readonly GivenCall[]): readonly (string | Mark)[];
  /** Whether an answer has one tag at most: it holds all calls, or the model ends its answer after one. */
  readonly single?: boolean;
}

/** Returns the JSON schema of a function's arguments, an object. */
export function parametersOf({ parameters }: ToolFunction): object {
  const given = (parameters ?? {}) as Readonly<Record<string, unknown>>;
  return ['type', '$ref', 'anyOf', 'oneOf', 'allOf'].some((key) => given[key] !== undefined)
    ? given
    : { type: 'object', ...given };
}

/** Arguments as JSON that fits a function's schema. */
export const jsonArguments = (tool: ToolFunction): AnswerStructure => ({
  type: 'json_schema',
  json_schema: parametersOf(tool),
});

/** A structure that each function has its own of: texts and structures, one after the other. */
export const byTool = (
  tools: readonly ToolFunction[],
  parts: (tool: ToolFunction) => readonly (string | AnswerStructure)[],
): AnswerStructure => ({
  type: 'or',
  elements: tools.map((tool) => ({
    type: 'sequence',
    elements: parts(tool).map((part) => (typeof part === 'string' ? { type: 'const_string', value: part } : part)),
  })),
});

/** No text. */
export const NOTHING: AnswerStructure = { type: 'grammar', grammar: 'root ::= ""' };

/** A part that may come or not. */
export const optional = (part: AnswerStructure): AnswerStructure => ({ type: 'or', elements: [part, NOTHING] });

export const tag = (begin: string, content: AnswerStructure, end: string): AnswerTag => ({
  type: 'tag',
  begin,
  content,
  end,
});

/** An id of a call that every chat template takes: nine letters and digits, as Mistral's ask for. */
export const SHORT_ID: RegExp = /^[a-zA-Z0-9]{9}$/;
