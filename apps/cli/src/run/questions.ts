import { isUtf8 } from 'node:buffer';
import { closeSync, openSync, readSync } from 'node:fs';
import { resolve } from 'node:path';
import { id, KvError } from '@kv/core';
import { compile, expectBudget, isShare } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { protectedSpans, report } from '@kv/engine';
import { answerGrammar, decode, loadCache as load, Sequence } from '@kv/models';
import type { Budget, CacheForm, ChatTemplate, Chunk, DecodeOptions, Model, ProtectedPart } from '@kv/models';
import { answerWriter } from '../answer-text.ts';
import { engineText } from '../cache-text.ts';
import { plain } from '../plain.ts';
import { expectEvicting, notSaved, policyOfCache } from '../policy/resolve-policy.ts';
import { keptLine, type KeptReport } from './kept-line.ts';
import { notesText } from './notes.ts';
import { documentIds, isOpenTurn, questionIds, turnTemplate, type TurnOptions } from './turns.ts';
import { saveCacheFile } from '../save-cache.ts';
import type { Terminal } from '../terminal.ts';

interface QuestionOptions extends TurnOptions {
  readonly document?: string | undefined;
  readonly loadCache?: string | undefined;
  readonly saveCache?: string | undefined;
  readonly questions: readonly string[];
  readonly policy: Policy;
  /** Whether the policy was named on the command line. */
  readonly named: boolean;
  readonly budget?: Budget | undefined;
  readonly protect?: readonly ProtectedPart[] | undefined;
  readonly cache?: CacheForm | undefined;
  readonly block?: number | undefined;
  readonly json?: true | undefined;
  readonly decoding: DecodeOptions;
  /** What the text of every answer fits. */
  readonly schema?: object | boolean | undefined;
  /** Says of the document's ids why what was asked for left the cache, or nothing. */
  why(ids: readonly number[]): string;
}

/** Prefills a document once, evicts once, and answers every question on a copy of the resulting cache. */
export async function answerQuestions(
  model: Model,
  options: QuestionOptions,
  { stdout, stderr, signal, cwd }: Terminal,
): Promise<void> {
  const { questions, json, saveCache, decoding, schema } = options,
    { base, by, limit, note, template } = await documentCache(model, options, cwd, signal);
  try {
    if (options.loadCache !== undefined) stderr.write(engineText(model, base.memory.cache.form));
    stderr.write(notesText([...base.stats.notes, ...(note === undefined ? [] : [note])]));
    if (saveCache !== undefined) await saveCacheFile(base, saveCache, cwd);
    const answers: object[] = [];
    for (const question of questions) {
      if (signal.aborted) return;
      if (!json && questions.length > 1) stdout.write(`${answers.length > 0 ? '\n' : ''}${plain(question.trim())}\n`);
      const ids = questionIds(model, template, question, options.chatTemplateKwargs),
        turn = template !== undefined,
        grammar =
          schema === undefined
            ? undefined
            : await answerGrammar(model, { kind: 'schema', schema }, turn ? ids : undefined);
      const answer = await answerOver(
        base,
        ids,
        { ...decoding, ...{ signal, turn, grammar } },
        json ? () => {} : answerWriter(stdout),
      );
      if (!json) stdout.write('\n');
      answers.push({ question, ...answer });
    }
    if (signal.aborted) return;
    stdout.write(options.why(base.progress.text.ids));
    const { counts, ...held } = heldBy(base, by);
    if (json) stdout.write(`${JSON.stringify({ answers, ...held, ...(isShare(limit) && { share: limit }) })}\n`);
    else
      stderr.write(
        `${keptLine({ ...held, counts }, { read: base.progress.length, share: isShare(limit) ? limit : undefined, of: 'the document', when: ['in the end', 'before the question'][questions.length] ?? 'before each question' })}\n`,
      );
  } finally {
    base.destroy();
  }
}

/** Returns what a sequence holds before a question; `policy` is the label of what compacted it. */
function heldBy(base: Sequence, policy: string): KeptReport {
  const { active, stats } = base,
    { kept, levels, spans, budget, raised, budgetBytes, bytes, cache, held } = report(base, 'length', {});
  return {
    kept,
    ...(levels && { levels }),
    ...(spans && { spans }),
    // what a saved cache was saved under is no budget of what goes on without events
    ...(active.policy.evicts &&
      budget !== undefined && { budget, ...(raised !== undefined && { raised }), budgetBytes }),
    ...{ bytes, cache, held, policy: policy || 'full' },
    // a loaded cache has had an event of its own
    counts: { ...stats.counts, events: active.last ? 1 : 0 },
  };
}

async function answerOver(
  base: Sequence,
  question: readonly number[],
  decoding: DecodeOptions,
  write: (chunk: Chunk) => void,
): Promise<{ text: string; reasoning?: string; tokens: number[] }> {
  const sequence = base.fork(),
    tokens: number[] = [];
  let said = '',
    thought = '';
  try {
    await sequence.append(question);
    for await (const chunk of decode(sequence, decoding)) {
      const { token, text, reasoning = '' } = chunk;
      if (token !== undefined) tokens.push(token);
      said += text;
      thought += reasoning;
      write(chunk);
    }
    return { text: said, ...(thought !== '' && { reasoning: thought }), tokens };
  } finally {
    sequence.destroy();
  }
}

/** The cache of a document. */
interface DocumentCache {
  readonly base: Sequence;
  /** The template of the turn that the document began. */
  readonly template?: ChatTemplate | undefined;
  /** Label of the policy that compacted it. */
  readonly by: string;
  /** The budget that it was compacted to. */
  readonly limit?: Budget | undefined;
  /** What did not happen, though it may look as if it had. */
  readonly note?: string;
}

async function documentCache(
  model: Model,
  options: QuestionOptions,
  cwd: string,
  signal: AbortSignal,
): Promise<DocumentCache> {
  const { document, loadCache: file, policy, budget, protect = [], block } = options;
  if (file !== undefined) return loadedCache(model, file, options, cwd);
  const template = turnTemplate(model, options),
    // without a saved cache there is a document, see documentGiven
    ids = documentIds(model, template, readText(document!, cwd), options.chatTemplateKwargs),
    { tokenizer } = model,
    sequence = new Sequence(model);
  try {
    if (compile(policy).evicts) sequence.protect(protectedSpans(protect, { ids, tokenizer }));
    await sequence.prefill(ids, { policy, budget, block, signal });
    return {
      ...{ base: sequence, template, by: sequence.active.policy.label },
      limit: compile(policy).evicts ? budget : undefined,
    };
  } catch (error) {
    sequence.destroy();
    throw error;
  }
}

/**
 * Loads a saved cache as it is; where a policy or a budget is given, that and the other one that it was saved under
 * compact it again.
 */
async function loadedCache(
  model: Model,
  file: string,
  { named, policy, budget, protect = [], cache, turn, chatTemplateKwargs }: QuestionOptions,
  cwd: string,
): Promise<DocumentCache> {
  const again = named || budget !== undefined;
  let by = '',
    found: Policy = named ? policy : id;
  const base = await load(model, resolve(cwd, file), {
    cache,
    budget,
    policy: (label) => {
      by = label;
      if (again && !named) found = policyOfCache(file, label);
      expectEvicting([found], { budget });
      if (budget !== undefined) expectBudget(compile(found), budget, { at: '--budget' });
      return found;
    },
  }).catch((cause: unknown) => {
    throw named ? notSaved(cause, file, policy, 'the document') : cause;
  });
  try {
    const own = model.chatTemplate?.(),
      open = own !== undefined && isOpenTurn(model, own, base.progress.text.ids);
    if ((turn || chatTemplateKwargs) && !open)
      throw new KvError(
        turn ? '--chat' : '--chat-template-kwargs',
        `expected a document that was read as a turn, got ${file}`,
      );
    const template = turnTemplate(model, { turn: turn ?? (open ? undefined : false), chatTemplateKwargs }),
      { evicts, label } = compile(found),
      { budget: had } = base.active,
      limit = budget ?? (had?.bytes === undefined ? (had?.share ?? had?.slots) : { bytes: had.bytes });
    if (!evicts)
      return {
        ...{ base, by, template },
        ...(named && by !== '' && { note: `'${label || 'full'}' evicts nothing: the cache stays as '${by}' left it` }),
      };
    expectBudget(compile(found), limit, { at: '--budget' });
    base.protect(protectedSpans(protect, { ids: base.progress.text.ids, tokenizer: model.tokenizer }));
    if (limit !== undefined) await base.evict(found, limit);
    return { base, by: label, limit, template };
  } catch (error) {
    base.destroy();
    throw error;
  }
}

/** Maximum bytes of a text; anything larger is a mistake. */
const MOST_BYTES = 2 ** 28;

/** Reads the text of a file or pipe. @throws KvError if it cannot be read, does not end, or is no text. */
export const readText = (file: string, cwd: string): string => expectText(readWhole(file, cwd), file);

/** Returns the text that bytes are. @throws KvError if they are none */
export function expectText(bytes: Buffer, at: string): string {
  const text = textOf(bytes);
  if (text === undefined) throw new KvError(plain(at), 'expected a text in UTF-8, got other bytes');
  return text;
}

/** Returns the text that bytes are, without a byte-order mark; undefined if they are none: UTF-16 is full of zeros. */
export const textOf = (bytes: Buffer): string | undefined =>
  isUtf8(bytes) && !bytes.includes(0) ? new TextDecoder().decode(bytes) : undefined;

/** Reads the bytes of a file or pipe. @throws KvError if it cannot be read, or does not end */
export function readWhole(file: string, cwd: string): Buffer {
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
    return Buffer.concat(parts);
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(file, `cannot be read (${(cause as NodeJS.ErrnoException).code ?? String(cause)})`);
  }
}
