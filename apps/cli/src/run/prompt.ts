import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import { notJson } from '@kv/models/engine';
import { templateTurns } from '../chat/turns.ts';
import { readText } from './questions.ts';

interface PromptOptions {
  readonly prompt?: string | undefined;
  readonly promptFile?: string | undefined;
  readonly promptIds?: string | undefined;
  /** The prompt is a turn of a conversation, in the words of the model's chat template. */
  readonly chat?: true | undefined;
  /** The prompt may be longer than the model's context. */
  readonly evictsInBlocks: boolean;
  /** What the command takes a prompt from, as errors name it. */
  readonly from: string;
}

/** Reads the prompt now, and encodes it once there is a model. */
export function promptReader(
  { prompt, promptFile, promptIds, chat, evictsInBlocks, from }: PromptOptions,
  cwd: string,
): (model: Model) => readonly number[] {
  if ([prompt, promptFile, promptIds].filter((given) => given !== undefined).length !== 1)
    throw new KvError('prompt', `expected exactly one of ${from}`);
  if (chat && promptIds !== undefined) throw new KvError('--chat', 'expected a prompt of text, got --prompt-ids');
  const text = prompt ?? readText((promptFile ?? promptIds)!, cwd); // one of the three, see above
  const given = promptIds === undefined ? undefined : parseIds(text, promptIds);
  return (model) => {
    const {
        name,
        config: { maxPositions, vocab },
        tokenizer,
      } = model,
      ids = given ?? (chat ? asTurn(text, model) : tokenizer.encode(text).ids);
    const wrong = ids.find((id) => id >= vocab);
    if (wrong !== undefined)
      throw new KvError('--prompt-ids', `expected ids below ${vocab}, the vocabulary of ${name}, got ${wrong}`);
    if (ids.length === 0) throw new KvError('prompt', 'expected at least one token, got an empty prompt');
    if (ids.length > maxPositions && !evictsInBlocks)
      throw new KvError('prompt', `expected at most ${maxPositions} tokens, the context of ${name}, got ${ids.length}`);
    return ids;
  };
}

function asTurn(text: string, { name, tokenizer, chatTemplate }: Model): readonly number[] {
  const render = chatTemplate?.();
  if (!render) throw new KvError('--chat', `expected a model with a chat template, got ${name}`);
  return templateTurns(tokenizer, render, undefined).turn(text, '');
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
