import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import { id, KvError, maybe, text } from '@kv/core';
import { compile, expectBudget } from '@kv/core/engine';
import type { Budget, Policy, ResolvedOptions } from '@kv/core';
import { bytesText, counted } from '@kv/core/shared';
import { Chat, loadCache, Sequence } from '@kv/models';
import { samplingOf, schemas, tokenBytes } from '@kv/engine';
import type { Model } from '@kv/models';
import { Command } from 'commander';
import { engineText } from '../cache-text.ts';
import { saveChat } from '../chat/commands.ts';
import { repl } from '../chat/repl.ts';
import { hostOnly } from '../engine.ts';
import { withFlagNames, withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { chatModel, modelOption, SUGGESTED } from '../model-source.ts';
import { plain } from '../plain.ts';
import { expectEvicting, notSaved, policyOfCache, resolvePolicy } from '../policy/resolve-policy.ts';
import { checkCacheFile } from '../save-cache.ts';
import { cacheOption, chatTemplateOption, machineOptions } from '../shared-options.ts';
import type { Terminal } from '../terminal.ts';
import { withModel } from '../with-model.ts';

/**
 * What keeps a conversation without `--policy`: the best that was measured where the question comes after the eviction,
 * as in a conversation, at the budget at which it answered as the full cache did (docs/evidence.md).
 */
const DEFAULT = { policy: 'outstandingSentences', budget: '25%' } as const;
/** Share of this machine's memory that the cache of a conversation may take by default. */
const CACHE_SHARE = 1 / 8;

/** Returns the default budget: that of `DEFAULT`, or what fits `CACHE_SHARE` of the memory where that is less. */
export function defaultBudget(
  { config, cacheForm }: Pick<Model, 'config' | 'cacheForm'>,
  memory: number = totalmem(),
): Budget {
  const fit = Math.floor((CACHE_SHARE * memory) / tokenBytes(cacheForm, config));
  return fit < config.maxPositions / 4 ? Math.max(1, fit) : DEFAULT.budget;
}

const { sequence: _, ...CHAT_OPTIONS } = schemas.CHAT;
/** Flags of `kv chat`. */
export const CHAT = {
  ...machineOptions('fast'),
  model: maybe(modelOption, `the largest chat model in the Hugging Face cache, else ${SUGGESTED}`),
  chatTemplate: chatTemplateOption,
  ...CHAT_OPTIONS,
  budget: {
    ...CHAT_OPTIONS.budget,
    says: "Slots per layer and KV head, a share of the model's context such as 25%, or bytes such as 64MiB; a policy that evicts needs one.",
    otherwise: 'without --policy that of its default, with --load the one that the conversation had',
  },
  cache: cacheOption('--load'),
  policy: maybe(
    text('', 'a policy', "As for 'kv run'; with --load the policy that the conversation had."),
    `${DEFAULT.policy} at ${DEFAULT.budget} of the context, or what fits an eighth of the memory`,
  ),
  load: maybe(text('', 'a file', 'Go on with a saved conversation.')),
  save: maybe(text('', 'a file', 'Save the conversation at the end.')),
};
type ChatOptions = ResolvedOptions<typeof CHAT>;

/** `kv chat`: a conversation over a cache of fixed size. */
export const chatCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(
      new Command('chat').description(
        "Talk with a model while a policy keeps the cache at its budget, past the model's context too.",
      ),
      CHAT,
    ).action((options: ChatOptions, command: Command) => chat(options, command, terminal)),
    ['kv chat', 'a conversation in bounded memory, past the context of the model'],
    [
      'kv chat -m model.gguf --policy outstandingSentences --budget 512',
      'with a model, a policy and a budget of yours',
    ],
    ['kv chat -hf Qwen/Qwen3-0.6B', 'with a model of the Hugging Face hub'],
    [
      'kv chat --policy streaming --budget 64 --save talk.safetensors',
      "keeps it for 'kv chat --load talk.safetensors'",
    ],
  );

async function chat(options: ChatOptions, command: Command, terminal: Terminal): Promise<void> {
  const { input, cwd } = terminal,
    { system, load } = options;
  if (!input) throw new KvError('chat', 'expected an input to read turns from, got none');
  if (system !== undefined && load !== undefined)
    throw new KvError('--system', 'expected none with --load, since a saved conversation has begun already');
  checkCacheFile(options.save, cwd);
  terminal.outliveStdout?.(); // what was said is saved
  if (options.model === undefined) command.setOptionValue('model', await chatModel());
  const chosen = options.policy === undefined && load === undefined,
    named = chosen ? DEFAULT.policy : options.policy,
    given = named === undefined ? undefined : await resolvePolicy(named, { cwd });
  if (given && options.budget !== undefined) expectBudget(compile(given), options.budget, { at: '--budget' });
  if (given) expectEvicting([given], options);
  await withModel(command, terminal, given && hostOnly([compile(given)]), (model) => {
    const budget = options.budget ?? (chosen ? defaultBudget(model) : undefined);
    return withFlagNames(command, () =>
      converse(model, given, { ...options, policy: named, budget }, { ...terminal, input }),
    );
  });
}

async function converse(
  model: Model,
  given: Policy | undefined,
  options: ChatOptions,
  terminal: Terminal & Required<Pick<Terminal, 'input'>>,
): Promise<void> {
  const { stderr, cwd } = terminal,
    { save, system, chatTemplateKwargs, protect, block, every, maxNewTokens } = options;
  const { sequence, policy } = await opened(model, given, options, cwd);
  expectEvicting([policy], options); // that of the saved conversation
  if (options.load !== undefined) stderr.write(engineText(model, sequence.memory.cache.form));
  const { budget: had } = sequence.active,
    budget = options.budget ?? (had?.bytes === undefined ? had?.slots : { bytes: had.bytes }),
    reading = { system, chatTemplateKwargs, policy, budget, protect, block, every, sequence },
    chat = new Chat(model, { ...reading, maxNewTokens, ...samplingOf(options) });
  try {
    const { slots, bytes = 0 } = await chat.retention(),
      context = model.config.maxPositions,
      keeps =
        slots === undefined
          ? `keeps all until the context of ${counted(context, 'token')} is full`
          : `keeps ${counted(slots, 'slot')} (at most ${bytesText(bytes)}), ${Math.round((100 * slots) / context)} % of its context`;
    stderr.write(
      `${plain(`${/[^/\\]+$/.exec(model.name)?.[0] ?? model.name}: ${options.policy ?? (policy.label || 'full')} ${keeps}`)}${(slots ?? 0) > 64 ? '; /policy 64 keeps only 64' : ''}; /help lists what else can be typed\n`,
    );
    if (model.chatTemplate?.() === undefined)
      stderr.write(
        `it has no chat template, as base models have none: it was not trained to answer and goes on with what you write, line by line; a file trained to chat ('Instruct', 'it') answers, such as --model ${SUGGESTED}\n`,
      );
    try {
      await repl(chat, terminal);
    } finally {
      if (save !== undefined && chat.sequence.progress.length > 0) await saveChat(chat, save, cwd);
    }
  } finally {
    chat.destroy();
  }
}

async function opened(
  model: Model,
  given: Policy | undefined,
  { load, cache }: ChatOptions,
  cwd: string,
): Promise<{ sequence: Sequence; policy: Policy }> {
  let policy = given;
  const sequence =
    load === undefined
      ? new Sequence(model)
      : await loadCache(model, resolve(cwd, load), {
          cache,
          policy: (label) => (policy ??= policyOfCache(load, label)),
        }).catch((cause: unknown) => {
          throw given ? notSaved(cause, load, given, 'the conversation') : cause;
        });
  return { sequence, policy: policy ?? id }; // what a library saved may have had none
}
