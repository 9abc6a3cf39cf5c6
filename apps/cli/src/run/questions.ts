import { closeSync, openSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import { KvError } from '@kv/core';
import type { Policy } from '@kv/core';
import { decode, loadCache, Sequence } from '@kv/models';
import type { Budget, CacheForm, DecodeOptions, Model } from '@kv/models';
import { savedText } from '../cache-text.ts';
import { plain } from '../plain.ts';
import { notesText } from './notes.ts';
import { saveCacheFile } from '../save-cache.ts';
import { shownOn, type Terminal } from '../terminal.ts';

interface QuestionOptions {
  readonly document?: string | undefined;
  readonly loadCache?: string | undefined;
  readonly saveCache?: string | undefined;
  readonly questions: readonly string[];
  readonly policy: Policy;
  readonly budget?: Budget | undefined;
  readonly cache?: CacheForm | undefined;
  readonly block?: number | undefined;
  readonly json?: true | undefined;
  readonly decoding: DecodeOptions;
}

/** Prefills a document once, evicts once, and answers every question on a copy of the resulting cache. */
export async function answerQuestions(
  model: Model,
  options: QuestionOptions,
  { stdout, stderr, signal, cwd }: Terminal,
): Promise<void> {
  const { questions, json, saveCache, decoding } = options,
    base = await documentCache(model, options, cwd, signal);
  try {
    stderr.write(`${savedText(base)}${notesText(base.stats.notes)}`);
    if (saveCache !== undefined) await saveCacheFile(base, saveCache, cwd);
    const answers: object[] = [];
    for (const question of questions) {
      if (signal.aborted) return;
      if (!json && questions.length > 1) stdout.write(`${answers.length > 0 ? '\n' : ''}${plain(question.trim())}\n`);
      const answer = await answerOver(
        base,
        question,
        { ...decoding, signal },
        json ? () => {} : (text) => stdout.write(shownOn(stdout, text)),
      );
      if (!json) stdout.write('\n');
      answers.push({ question, ...answer });
    }
    if (json && !signal.aborted)
      stdout.write(
        `${JSON.stringify({ answers, kept: base.kept(), bytes: base.memory.ledger.bytes(), cache: base.memory.cache, policy: base.active.policy.label || 'full' })}\n`,
      );
  } finally {
    base.destroy();
  }
}

async function answerOver(
  base: Sequence,
  question: string,
  decoding: DecodeOptions,
  write: (text: string) => void,
): Promise<{ text: string; tokens: number[] }> {
  const sequence = base.fork(),
    tokens: number[] = [];
  let said = '';
  try {
    await sequence.append(base.model.tokenizer.encode(question, { special: false }).ids);
    for await (const { token, text } of decode(sequence, decoding)) {
      if (token !== undefined) tokens.push(token);
      said += text;
      write(text);
    }
    return { text: said, tokens };
  } finally {
    sequence.destroy();
  }
}

async function documentCache(
  model: Model,
  { document, loadCache: file, policy, budget, cache, block }: QuestionOptions,
  cwd: string,
  signal: AbortSignal,
): Promise<Sequence> {
  if (file !== undefined) return loadCache(model, resolve(cwd, file), { cache });
  const sequence = new Sequence(model);
  try {
    // without a saved cache there is a document, see documentGiven
    await sequence.prefill(model.tokenizer.encode(readText(document!, cwd)).ids, { policy, budget, block, signal });
    return sequence;
  } catch (error) {
    sequence.destroy();
    throw error;
  }
}

/** Maximum bytes of a text; anything larger is a mistake. */
const MOST_BYTES = 2 ** 28;

/** Reads the text of a file or pipe. @throws KvError if it cannot be read, or does not end. */
export function readText(file: string, cwd: string): string {
  try {
    const from = openSync(resolve(cwd, file), 'r'),
      part = Buffer.alloc(2 ** 20),
      parts: Buffer[] = [];
    try {
      for (let all = 0, more = 1; more > 0; all += more) {
        if (all > MOST_BYTES) throw new KvError(file, `expected a text of at most ${MOST_BYTES} bytes, got more`);
        more = readSync(from, part);
        parts.push(Buffer.from(part.subarray(0, more)));
      }
    } finally {
      closeSync(from);
    }
    return Buffer.concat(parts).toString('utf8');
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(file, `cannot be read (${(cause as NodeJS.ErrnoException).code ?? String(cause)})`);
  }
}
