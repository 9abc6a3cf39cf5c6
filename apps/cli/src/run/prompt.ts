import { addAbortSignal } from 'node:stream';
import type { Readable } from 'node:stream';
import { KvError } from '@kv/core';
import { notJson } from '@kv/checkpoints';
import { chatIds, type Model } from '@kv/models';
import { plain } from '../plain.ts';
import type { Terminal } from '../terminal.ts';
import { expectText, readText } from './questions.ts';
import { turnTemplate, type TurnOptions } from './turns.ts';

/** Flags that give a prompt. */
interface PromptFlags {
  readonly prompt?: string | undefined;
  readonly promptFile?: string | undefined;
  readonly promptIds?: string | undefined;
}
interface PromptOptions extends PromptFlags, TurnOptions {
  /** Whether the prompt may exceed the model's context. */
  readonly evictsInBlocks: boolean;
  /** The command's sources of a prompt, as errors name them. */
  readonly from: string;
}

/** Seconds that standard input may take to begin if it was not asked for. */
const PATIENCE_S = 10;

/**
 * Adds the prompt to the options: the argument or, if nothing else gives one (`other`: another option of the command
 * does), standard input, from a pipe, a file or `-`.
 *
 * @throws KvError if a pipe sends nothing for ten seconds, so that a pipe without a writer does not block for ever
 */
export async function withPrompt<T extends PromptFlags>(
  argument: string | undefined,
  options: T,
  other: boolean,
  from: string,
  { input, signal }: Pick<Terminal, 'input' | 'signal'>,
): Promise<T> {
  const given = [options.prompt, options.promptFile, options.promptIds, argument].filter((one) => one !== undefined);
  if (given.length > 1) throw new KvError('prompt', `expected exactly one of ${from}`);
  if (argument !== undefined && argument !== '-') return { ...options, prompt: argument };
  if ((argument === undefined && (given.length > 0 || other)) || !input || input.stream.isTTY) return options;
  const text = await read(input.stream, argument === '-' ? undefined : PATIENCE_S, signal);
  return { ...options, prompt: withoutLastNewline(text) };
}

async function read(stream: NodeJS.ReadableStream, patience: number | undefined, signal: AbortSignal): Promise<string> {
  const parts: Buffer[] = [],
    late = new AbortController(),
    timer =
      patience === undefined
        ? undefined
        : setTimeout(
            () =>
              late.abort(
                new KvError(
                  'prompt',
                  `expected a prompt, got a standard input without a word for ${patience} s: give one as an argument, or '-' to wait for it`,
                ),
              ),
            1000 * patience,
          );
  try {
    for await (const part of addAbortSignal(AbortSignal.any([signal, late.signal]), stream as Readable)) {
      clearTimeout(timer);
      parts.push(Buffer.from(part as Uint8Array | string));
    }
  } catch (error) {
    throw late.signal.aborted ? late.signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
  return expectText(Buffer.concat(parts), 'standard input');
}

/** Removes the newline with which editors end a file. */
const withoutLastNewline = (text: string): string => text.replace(/\r?\n$/, '');

/** Reads the prompt now; the returned function encodes it once there is a model. */
export function promptReader(
  { prompt, promptFile, promptIds, turn, evictsInBlocks, from, chatTemplateKwargs: variables }: PromptOptions,
  cwd: string,
): (model: Model) => readonly number[] {
  if ([prompt, promptFile, promptIds].filter((given) => given !== undefined).length !== 1)
    throw new KvError('prompt', `expected exactly one of ${from}`);
  if (promptIds !== undefined && (turn || variables))
    throw new KvError(turn ? '--chat' : '--chat-template-kwargs', 'expected a prompt of text, got --prompt-ids');
  // one of the three is given, see above
  const text =
    prompt ?? (promptFile === undefined ? readText(promptIds!, cwd) : withoutLastNewline(readText(promptFile, cwd)));
  if (text === '' && promptIds === undefined)
    throw new KvError(
      'prompt',
      `expected a text, got an empty ${promptFile === undefined ? 'one' : `file ${plain(promptFile)}`}: give it by one of ${from}`,
    );
  const given = promptIds === undefined ? undefined : parseIds(text, promptIds);
  return (model) => {
    const {
        name,
        config: { maxPositions, vocab },
        tokenizer,
      } = model,
      ids =
        given ??
        (turnTemplate(model, { turn, chatTemplateKwargs: variables })
          ? chatIds(model, [{ role: 'user', content: text }], { variables })
          : tokenizer.encode(text).ids);
    const wrong = ids.find((id) => id >= vocab);
    if (wrong !== undefined)
      throw new KvError('--prompt-ids', `expected ids below ${vocab}, the vocabulary of ${name}, got ${wrong}`);
    if (ids.length === 0) throw new KvError('prompt', 'expected at least one token, got an empty prompt');
    if (ids.length > maxPositions && !evictsInBlocks)
      throw new KvError('prompt', `expected at most ${maxPositions} tokens, the context of ${name}, got ${ids.length}`);
    return ids;
  };
}

function parseIds(text: string, file: string): readonly number[] {
  const words = text.trim().startsWith('[')
    ? jsonArray(text, file)
    : text
        .split(/\s+/)
        .filter((word) => word !== '')
        .map((word) => (/^\d+$/.test(word) ? Number(word) : word));
  return words.map((id) => {
    if (Number.isSafeInteger(id) && (id as number) >= 0) return id as number;
    throw new KvError(file, `expected token ids (whole numbers of at least 0), got ${JSON.stringify(id)}`);
  });
}

function jsonArray(text: string, file: string): readonly unknown[] {
  try {
    return JSON.parse(text) as readonly unknown[];
  } catch (cause) {
    throw new KvError(file, `expected a JSON array of token ids, got ${notJson(cause)}`);
  }
}
