import { KvError, maybe, text, texts } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { compile, isShare } from '@kv/core/engine';
import { certificates, readConstants } from '@kv/certificates';
import type { Certificates } from '@kv/certificates';
import { answerGrammar, generate } from '@kv/models';
import { expectNamed, commonHeads } from '@kv/checkpoints';
import { expectBias, recorder, samplingOf, schemas, slotModel } from '@kv/engine';
import type { GenerateResult, Model } from '@kv/models';
import { Command } from 'commander';
import { answerWriter } from '../answer-text.ts';
import { hostOnly } from '../engine.ts';
import { withFlagNames, withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { checkPolicyNamed, expectEvicting, resolvePolicy } from '../policy/resolve-policy.ts';
import { certificateLines } from '../run/certificate-lines.ts';
import { decodingUnder, expectHeld } from '../run/decode-policy.ts';
import { readSchema, unfinishedLine } from '../run/json-schema.ts';
import { keptLine } from '../run/kept-line.ts';
import { notesText } from '../run/notes.ts';
import { whyText } from '../run/why.ts';
import { promptReader, withPrompt } from '../run/prompt.ts';
import { remarks } from '../run/remarks.ts';
import { answerQuestions, readText } from '../run/questions.ts';
import { checkCacheFile } from '../save-cache.ts';
import { cacheOption, chatTemplateOption, expectDrawn, machineOptions, on, sampled } from '../shared-options.ts';
import { turnTemplate } from '../run/turns.ts';
import type { Terminal } from '../terminal.ts';
import { withModel } from '../with-model.ts';

const { GENERATE } = schemas;

/** Flags of `kv run`. */
export const RUN = {
  ...machineOptions('fast'),
  prompt: maybe(text('', 'text', 'The prompt, also as an argument.')),
  promptFile: maybe(
    text('', 'a file', 'A file with the prompt; a newline at its end is left out, as of standard input.'),
  ),
  promptIds: maybe(text('', 'a file', 'A file with token ids: a JSON array, or numbers between white space.')),
  chat: on(
    "The prompt, or the document with its question, is a person's turn in the words of the model's chat template, which must be there (the default for a text where it is).",
  ),
  raw: on('The prompt, or the document and its question, as they stand, without a chat template.'),
  chatTemplate: chatTemplateOption,
  chatTemplateKwargs: GENERATE.chatTemplateKwargs,
  document: maybe(text('', 'a file', 'A text that is read and compacted once, for every --question.')),
  question: texts('What follows the document, in the same turn.'),
  saveCache: maybe(text('', 'a file', "Write the document's compacted cache.")),
  loadCache: maybe(
    text(
      '',
      'a file',
      'Answer over a saved cache instead of a document; --policy and --budget, or one of them and what it was saved under, compact it again first.',
    ),
  ),
  policy: text(
    'full',
    'a policy',
    "A name that 'kv pieces' lists, with options such as streaming(sinks=4); or a module that exports 'policy'.",
  ),
  budget: GENERATE.budget,
  protect: GENERATE.protect,
  cache: cacheOption('--load-cache'),
  block: GENERATE.block,
  every: GENERATE.every,
  decodePolicy: maybe(text('', 'a policy', GENERATE.decodePolicy.says), GENERATE.decodePolicy.otherwise),
  decodeBudget: GENERATE.decodeBudget,
  maxNewTokens: GENERATE.maxNewTokens,
  stop: GENERATE.stop,
  ...sampled,
  jsonSchema: maybe(text('', 'a file', 'The answer is JSON that fits the JSON schema in this file.')),
  logits: maybe(GENERATE.logits),
  certify: on(
    'Print, after the text, what evictions dropped and views hid of the newest attention (with --json: `certificates`).',
  ),
  why: texts('Say after the text why a token, a position or a text, left the cache.'),
  detail: on('With --why: also every token of it, by layer and KV head.'),
  constants: maybe(text('', 'a file', "With --certify: what 'kv calibrate' fitted, for the bounds of PSAW and ETF.")),
  json: on(
    'Print one object {text, reasoning, tokens, kept, levels, held, spans, budget, raised, budgetBytes, bytes, cache, times, policy, engine} instead of the text (over a document {answers, kept, levels, held, spans, budget, raised, budgetBytes, share, bytes, cache, policy}); kept, the positions that the last eviction kept, by layer and KV head; reasoning, what the model thought before the text, where it did; held, what the cache holds in the end (of a document before its questions): slots {kept, dropped}, tokens {fed, dropped}, bytes {live, peak}; spans, how much is held of each unit that the policy cuts the text into, else of each turn of the chat template: {positions, role, tokens {fed, dropped}, share}; raised, the slots that a share was raised to; levels, where slots are stored at some, from 0 (f32) to 4 (q4); share, of all tokens of the document.',
  ),
};
type RunOptions = ResolvedOptions<typeof RUN>;

/** Sources of a prompt, for errors. */
const PROMPT =
  "a prompt in quotes (kv run 'TEXT'), standard input, --prompt, --prompt-file, --prompt-ids, --document and --load-cache";

/** `kv run`: answers a prompt with the cache kept within a budget, or several questions about one document. */
export const runCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(
      new Command('run')
        .description('Answer a prompt while a policy keeps the cache at its budget.')
        .argument('[prompt]', "the prompt; '-', or nothing where something is piped in, reads standard input"),
      RUN,
    ).action(async (prompt: string | undefined, options: RunOptions, command: Command) =>
      run(
        await withPrompt(prompt, options, (options.document ?? options.loadCache) !== undefined, PROMPT, terminal),
        command,
        terminal,
      ),
    ),
    [
      `kv run "The code is: XK7M9P2Q. The code is:" --policy taFast --budget 75% --stop .`,
      'an answer over three quarters of the prompt',
    ],
    [
      'kv run --document book.txt --question Who? --question When? --policy outstandingSentences --budget 256',
      'the document is read and cut once',
    ],
    [
      "kv run 'Ann is 30. Describe her as JSON.' --json-schema person.json",
      'JSON that fits the schema in person.json, whatever the model',
    ],
    [
      'kv run --prompt-file p.txt --policy ./mine.mjs --budget 25% --json',
      'a policy of yours, the outcome as one object',
    ],
  );

async function run(options: RunOptions, command: Command, terminal: Terminal): Promise<void> {
  const { stdout, signal, cwd } = terminal;
  if (options.logits !== undefined && !options.json)
    throw new KvError('--logits', 'expected --json too, got a run that prints text');
  expectDrawn(options);
  if (options.why && (options.json || options.loadCache !== undefined))
    throw new KvError('--why', 'expected a run that prints text and evicts, got --json or a saved cache');
  if (options.detail && !options.why) throw new KvError('--detail', 'expected --why too, got none');
  if (options.chat && options.raw) throw new KvError('--raw', 'expected --raw or --chat, got both');
  if (options.constants !== undefined && !options.certify)
    throw new KvError('--constants', 'expected --certify too, got a run without certificates');
  const fitted = options.constants === undefined ? undefined : readText(options.constants, cwd);
  const {
    document,
    loadCache,
    saveCache,
    question: questions = [],
    block,
    every,
    logits,
    maxNewTokens,
    stop,
  } = options;
  const over = documentGiven(options),
    turn = options.chat ?? (options.raw ? false : undefined),
    read = over
      ? undefined
      : promptReader(
          {
            ...options,
            turn,
            from: PROMPT,
            evictsInBlocks: block !== undefined && options.budget !== undefined,
          },
          cwd,
        );
  const schema = options.jsonSchema === undefined ? undefined : readSchema(options.jsonSchema, cwd);
  checkCacheFile(saveCache, cwd);
  checkPolicyNamed(command);
  const named = await resolvePolicy(options.policy, { cwd }),
    recorded = options.why && recorder(named),
    policy = recorded?.policy ?? named;
  // a saved cache may go on under its own policy and budget
  const under = loadCache === undefined ? await withFlagNames(command, () => decodingUnder(policy, options, cwd)) : {};
  if (loadCache === undefined) {
    expectEvicting([policy], { block });
    expectEvicting([policy, under.decodePolicy ?? policy], { budget: options.budget, every });
  }
  const drawing = { every, maxNewTokens, stop, ...samplingOf(options) },
    keeping = { policy, budget: options.budget, protect: options.protect, block };
  const looking = options.certify ? '--certify' : recorded && '--why',
    reason = looking
      ? `${looking} looks at attention and scores, which stay on a GPU`
      : hostOnly([policy, under.decodePolicy ?? policy].map((p) => compile(p)));
  await withModel(command, terminal, reason, async (model) => {
    await withFlagNames(command, () => expectBias(options.logitBias, model.config.vocab));
    if (loadCache === undefined) await withFlagNames(command, () => expectHeld(model, { ...keeping, ...under, every }));
    const explained = (asked: string, ids: readonly number[]): string =>
      whyText(asked, recorded?.events ?? [], ids, model, options.detail);
    if (!read) {
      // refused before the document is read
      if (schema !== undefined) await answerGrammar(model, { kind: 'schema', schema });
      return answerQuestions(
        model,
        {
          ...{ decoding: drawing, schema, ...keeping, cache: options.cache, document, loadCache, saveCache, questions },
          ...{ turn, chatTemplateKwargs: options.chatTemplateKwargs },
          named: command.getOptionValueSource('policy') === 'cli',
          json: options.json,
          why: (ids) => options.why?.map((asked) => explained(asked, ids)).join('') ?? '',
        },
        terminal,
      );
    }
    const ids = read(model);
    const generation = generate(model, {
      ...drawing,
      ...keeping,
      ...under,
      ...{ ids, schema },
      turn: options.promptIds === undefined && turnTemplate(model, { ...options, turn }) !== undefined,
      stopAtEos: options.promptIds === undefined,
      logits,
      signal,
      certify: options.certify
        ? certificates({
            constants:
              fitted === undefined
                ? undefined
                : readConstants(boundTo(model, fitted), {
                    ...slotModel(model.config),
                    ...commonHeads(model.config, '--certify'),
                  }),
          })
        : undefined,
    });
    if (!options.json) {
      const write = answerWriter(stdout);
      for await (const chunk of generation) write(chunk);
      if (signal.aborted) return;
      const { report } = await generation;
      stdout.write(`\n${options.certify ? certificateLines(report.certificates as Certificates) : ''}`);
      const { tokens } = await generation,
        all = [...ids, ...tokens];
      for (const asked of options.why ?? []) stdout.write(explained(asked, all));
      terminal.stderr.write(
        `${notesText(report.notes)}${schema === undefined ? '' : unfinishedLine(report)}${keptLine(report, { read: ids.length, every, share: isShare(options.budget) ? options.budget : undefined })}\n${remarks(await generation, model.tokenizer.decode(ids), model, { model: options.model, raw: options.raw === true })}`,
      );
      return;
    }
    const generated = await generation;
    if (signal.aborted) return;
    terminal.stderr.write(
      `${notesText(generated.report.notes)}${schema === undefined ? '' : unfinishedLine(generated.report)}`,
    );
    stdout.write(`${JSON.stringify(asJson(generated, model.engine))}\n`);
  });
}

/** Checks a file of constants and returns its text. @throws KvError if it names another model */
function boundTo(model: Model, text: string): string {
  const of = /"model": "([0-9a-f]{64})"/.exec(text)?.[1];
  if (of !== undefined) expectNamed('--constants', model, of, `constants of ${model.name}`, 'those');
  return text;
}

const asJson = (
  {
    text,
    reasoning,
    tokens,
    report: {
      kept,
      levels,
      held,
      spans,
      budget,
      raised,
      budgetBytes,
      bytes,
      cache,
      times,
      policy,
      decodePolicy,
      certificates: found,
    },
    logits,
  }: GenerateResult,
  engine: string,
): object => ({
  text,
  ...(reasoning !== undefined && { reasoning }),
  tokens,
  kept,
  ...(levels && { levels }),
  held,
  ...(spans && { spans }),
  ...(budget !== undefined && { budget, ...(raised !== undefined && { raised }), budgetBytes }),
  bytes,
  cache,
  times,
  policy,
  ...(decodePolicy !== undefined && { decodePolicy }),
  engine,
  ...(found && { certificates: found }),
  ...(logits && { logits: logits.map((row) => Array.from(row)) }),
});

/** Whether the run is about a document; checks that its options go together. */
function documentGiven({
  document,
  loadCache,
  saveCache,
  question,
  prompt,
  promptFile,
  promptIds,
  logits,
  certify,
  decodePolicy,
  decodeBudget,
  block,
}: RunOptions): boolean {
  const over = document !== undefined || loadCache !== undefined;
  if (!over && (question || saveCache !== undefined))
    throw new KvError(question ? '--question' : '--save-cache', 'expected --document or --load-cache too, got neither');
  if (!over) return false;
  if ([document, loadCache, prompt, promptFile, promptIds].filter((given) => given !== undefined).length > 1)
    throw new KvError('prompt', `expected exactly one of ${PROMPT}`);
  if (!question && saveCache === undefined)
    throw new KvError('--question', 'expected at least one question, or --save-cache, got neither');
  if (loadCache !== undefined && block !== undefined)
    throw new KvError('--block', 'expected none with --load-cache, whose text was read before, got a number of tokens');
  if (logits !== undefined) throw new KvError('--logits', 'expected a prompt, got a document');
  if (certify) throw new KvError('--certify', 'expected a prompt, got a document');
  if (decodePolicy !== undefined || decodeBudget !== undefined)
    throw new KvError(
      decodePolicy === undefined ? '--decode-budget' : '--decode-policy',
      'expected a prompt, got a document',
    );
  return true;
}
