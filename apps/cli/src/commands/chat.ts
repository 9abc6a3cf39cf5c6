import { resolve } from 'node:path';
import { count, KvError, maybe, text } from '@kv/core';
import { allowanceOf, compile, excerpt, expectBudget } from '@kv/core/engine';
import type { Policy, ResolvedOptions } from '@kv/core';
import { loadCache, Sequence } from '@kv/models';
import { schemas } from '@kv/engine';
import type { Budget, Model } from '@kv/models';
import { Command } from 'commander';
import { createConversation } from '../chat/conversation.ts';
import { repl } from '../chat/repl.ts';
import { lineTurns, templateTurns, type ChatTurns } from '../chat/turns.ts';
import { hostOnly } from '../engine.ts';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { CHAT_MODEL } from '../model-source.ts';
import { plain } from '../plain.ts';
import { checkPolicyNamed, policyOfFile, resolvePolicy } from '../policy/resolve-policy.ts';
import { checkCacheFile } from '../save-cache.ts';
import { machineOptions, sampled } from '../shared-options.ts';
import type { Terminal } from '../terminal.ts';
import { withModel } from '../with-model.ts';

const { GENERATE } = schemas;

/** Flags of `kv chat`. */
export const CHAT = {
  ...machineOptions('fast'),
  policy: maybe(text('', 'a policy', "As for 'kv run'; with --load the policy that the conversation had."), 'full'),
  budget: {
    ...GENERATE.budget,
    says: "Slots per layer and KV head, or a share of the model's context, such as 25%.",
  },
  block: {
    ...GENERATE.block,
    says: 'Feed a long turn in blocks of this many tokens, each followed by an eviction.',
    otherwise: 'what fits the context, at most 512',
  },
  every: {
    ...GENERATE.every,
    says: 'Evict after this many generated tokens too, not only after each turn.',
    otherwise: 'only where a long answer needs the room',
  },
  system: maybe(text('', 'a text', 'What stands before the first turn.')),
  load: maybe(text('', 'a file', 'Go on with a saved conversation.')),
  save: maybe(text('', 'a file', 'Save the conversation at the end.')),
  maxNewTokens: count(256, 'tokens', GENERATE.maxNewTokens.says),
  ...sampled,
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
    [
      `kv chat --model ${CHAT_MODEL} --policy 'snapkv(window=16,kernel=17,pooling=max)' --budget 512`,
      'a conversation past the context of the model, in 512 slots',
    ],
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
  if (load === undefined) checkPolicyNamed(command);
  checkCacheFile(options.save, cwd);
  const given = options.policy === undefined ? undefined : await resolvePolicy(options.policy, { cwd });
  if (given && options.budget !== undefined) expectBudget(compile(given), options.budget, '--budget');
  await withModel(command, terminal, given && hostOnly([compile(given)]), (model) =>
    converse(model, given, options, { ...terminal, input }),
  );
}

async function converse(
  model: Model,
  given: Policy | undefined,
  options: ChatOptions,
  terminal: Terminal & Required<Pick<Terminal, 'input'>>,
): Promise<void> {
  const { stderr, cwd } = terminal,
    { system, save, maxNewTokens, temperature, topP, seed, every } = options;
  const { sequence, policy } = await opened(model, given, options, cwd);
  try {
    const { maxPositions } = model.config,
      asked = options.budget ?? sequence.active.budget?.slots,
      budget = slots(policy, asked, model);
    const block = options.block ?? Math.max(1, Math.min(512, maxPositions - (budget ?? 0)));
    if (budget !== undefined && budget + block > maxPositions)
      throw new KvError(
        '--block',
        `expected at most ${maxPositions - budget} tokens in addition to a budget of ${budget}, got ${block}`,
      );
    const conversation = createConversation(sequence, turnsOf(model, system), {
      policy,
      budget,
      block,
      every: every ?? roomy(budget, maxPositions),
      maxNewTokens,
      temperature,
      topP,
      seed,
    });
    stderr.write(
      `${plain(`${model.name} on ${model.engine}, ${policy.label || 'full'}`)}${budget === undefined ? '' : `, ${budget} slots`}; /help lists what else can be typed\n`,
    );
    if (model.chatTemplate?.() === undefined)
      stderr.write(
        `it has no chat template, as base models have none: it was not trained to answer and goes on with what you write, line by line; a file trained to chat ('Instruct', 'it') answers, such as --model ${CHAT_MODEL} (98 MB)\n`,
      );
    await repl(conversation, terminal);
    if (save !== undefined && sequence.progress.length > 0) await conversation.save(save, cwd);
  } finally {
    sequence.destroy();
  }
}

async function opened(
  model: Model,
  given: Policy | undefined,
  { load }: ChatOptions,
  cwd: string,
): Promise<{ sequence: Sequence; policy: Policy }> {
  if (load === undefined) return { sequence: new Sequence(model), policy: given ?? policyOfFile('full') };
  let policy = given;
  const sequence = await loadCache(model, resolve(cwd, load), {
    policy: (label) => (policy ??= policyOfCache(load, label)),
  });
  return { sequence, policy: policy! }; // required by loadCache
}

/**
 * Returns the policy of a saved conversation. @throws KvError about the file for a policy that only the command line
 * may name
 */
function policyOfCache(file: string, label: string): Policy {
  try {
    return policyOfFile(label);
  } catch (cause) {
    if (!KvError.is(cause)) throw cause;
    throw new KvError(
      file,
      `expected a conversation whose policy kv brings along, or --policy to name another one's, got ${excerpt(label)}`,
    );
  }
}

/** Returns turns in the model's chat template, if its checkpoint has one. */
function turnsOf({ tokenizer, chatTemplate }: Model, system: string | undefined): ChatTurns {
  const render = chatTemplate?.();
  return render ? templateTurns(tokenizer, render, system) : lineTurns(tokenizer, system);
}

/**
 * Returns the default number of tokens between two evictions: half of the context outside the budget, so that long
 * answers have room.
 */
const roomy = (budget: number | undefined, context: number): number | undefined =>
  budget === undefined ? undefined : Math.max(1, Math.floor((context - budget) / 2));

/** Returns the budget in slots if the policy evicts. @throws KvError for a budget that it cannot keep */
function slots(
  policy: Policy,
  asked: Budget | undefined,
  { name, config: { maxPositions } }: Model,
): number | undefined {
  const compiled = compile(policy);
  if (!compiled.evicts) return undefined;
  // turns need room in addition to the budget, so a policy that chooses its own size needs one too
  expectBudget({ ...compiled, choosesBudget: false }, asked, '--budget');
  const { slots: budget } = allowanceOf(compiled, asked!, maxPositions, '--budget');
  if (budget >= maxPositions)
    throw new KvError('--budget', `expected fewer slots than the context of ${name}, ${maxPositions}, got ${budget}`);
  return budget;
}
