import type { AnswerForm } from '@kv/grammars';
import type { Budget, ChatMessage, ProtectedPart, SamplerOptions, ToolChoice, ToolFunction } from '@kv/models';
import type { ServerOptions } from '../options.ts';

/** Values of variables of the chat template. */
export type PromptVariables = NonNullable<ServerOptions['chatTemplateKwargs']>;

/**
 * What is to be answered: a conversation, or prompts as texts or token ids. Messages are in the form that chat
 * templates read, calls in them with their arguments as text.
 */
export type AskedPrompt =
  | {
      readonly messages: readonly ChatMessage[];
      readonly variables?: PromptVariables | undefined;
      /** Whether the answer is to think first, where the client says so and not by a variable. */
      readonly thinking?: boolean | undefined;
      /** How much it is to think, where the client says so. */
      readonly effort?: AskedEffort | undefined;
    }
  | { readonly prompts: readonly (string | readonly number[])[] };

/** How much an answer is to think first. */
export interface AskedEffort {
  readonly level: string;
  /** What clients of the protocol send that ask for nothing. */
  readonly usual: string;
  /** What the client calls it. */
  readonly param: string;
}

/** A request, whichever protocol it came in. */
export interface Ask {
  /** The model that the client named, if it named one. */
  readonly model?: string | undefined;
  readonly stream: boolean;
  /** Answers of each prompt. */
  readonly n: number;
  readonly prompt: AskedPrompt;
  /** Functions that the answers may call; none with `prompts`. */
  readonly tools: readonly ToolFunction[];
  readonly toolChoice: ToolChoice;
  /** Whether an answer may make several calls. */
  readonly parallel: boolean;
  /** What an answer that calls nothing must look like. @defaultValue any text */
  readonly form?: AnswerForm | undefined;
  /** Whether the answers begin with their prompts. */
  readonly echo?: boolean | undefined;
  readonly sampling: Sampling;
  readonly stop: readonly string[];
  /** The most new tokens of an answer; without it `usualNewTokens`, as far as there is room. */
  readonly maxNewTokens?: number | undefined;
  readonly usualNewTokens: number;
  /** Most likely tokens to report for each token; absent if no log-probabilities were asked for. */
  readonly logprobs?: number | undefined;
  readonly policy?: string | undefined;
  readonly budget?: Budget | undefined;
  readonly block?: number | undefined;
  readonly every?: number | undefined;
  /** What no eviction may drop, in addition to what the server protects. */
  readonly protect?: readonly ProtectedPart[] | undefined;
  /** Whether a stream ends with the usage. */
  readonly includeUsage: boolean;
  /** What the protocol itself needs to write the answer; JSON can hold it. */
  readonly own?: unknown;
  /** What the client calls fields that are refused after this was read. */
  readonly names: AskNames;
}

/** How answers are drawn. */
export interface Sampling extends SamplerOptions {
  readonly seed: number;
}

/** What a protocol calls what a request holds, for refusals. */
export interface AskNames {
  readonly maxNewTokens: string;
  /** All messages, or all prompts. */
  readonly prompt: string;
  /** One of them, the `i`th. */
  one(i: number): string;
  readonly tools: string;
  /** The schema of the arguments of the `i`th of the tools. */
  parameters(i: number): string;
  readonly toolChoice: string;
  readonly form: string;
  /** A field of the `i`th message, such as `'tool_calls[0].function.arguments'`. @defaultValue that field of `one(i)` */
  field?(i: number, name: string): string;
}

/** A request without its prompt, whose text is dropped once it is tokenized. */
export type AskTerms = Omit<Ask, 'prompt'>;
