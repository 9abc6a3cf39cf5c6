import { flag, maybe } from '@kv/core';
import type { Option } from '@kv/core';
import { schemas } from '@kv/engine';
import type { Budget } from '@kv/models';
import type { Command } from 'commander';
import { budget, lists, number, whole, type Parse } from './option-values.ts';

/** A flag that is there or not. */
export const on = (says: string): Option<true | undefined> => maybe(flag(false, says)) as Option<true | undefined>;

/** How answers are drawn where nobody says otherwise: greedily. */
export const sampled = {
  temperature: maybe(schemas.SAMPLING.temperature, 'greedy'),
  topP: maybe(schemas.SAMPLING.topP, '1'),
  seed: maybe(schemas.SAMPLING.seed, '0'),
};

type OptionOf<T> = [flag: string, help: string, parse: Parse<T>];

/** `--budget` where it may be a share of the prompt. */
export const budgetOption: OptionOf<Budget> = [
  '--budget <slots>',
  'slots per layer and KV head, or the share of the prompt to keep, such as 25%',
  budget('--budget'),
];

/** `--block`; what an eviction between the blocks of a prompt means stands in the words of each command. */
export const blockOption = (help: string): OptionOf<number> => ['--block <tokens>', help, whole('--block', { min: 1 })];

/** `--every`, with words of its own where a command has another default. */
export const everyOption = (help = 'evict again after so many generated tokens'): OptionOf<number> => [
  '--every <tokens>',
  help,
  whole('--every', { min: 1 }),
];

/** What `--policies` and `--policy` were. */
export interface PolicyFlags {
  readonly policies?: readonly string[];
  readonly policy?: readonly string[];
}
/** `--policies` and `--policy`, which are the same; `which` says what is done with them. */
export const policiesOption = (command: Command, which: string, usual: readonly string[]): Command =>
  command
    .option(
      '--policies <list>',
      `${which}, as 'kv run --policy' takes them, between commas (default: ${usual.join(', ')})`,
      lists('--policies', (text) => text),
    )
    .option(
      '--policy <policy>',
      'the same (both may be given again)',
      lists('--policy', (text) => text),
    );
/** What was asked for, or else the usual ones. */
export const policiesOf = ({ policies = [], policy = [] }: PolicyFlags, usual: readonly string[]): readonly string[] =>
  policies.length + policy.length > 0 ? [...new Set([...policies, ...policy])] : usual;

export const temperatureOption: OptionOf<number> = [
  '--temperature <t>',
  'sample instead of taking the likeliest token; 0 is greedy',
  number('--temperature', { min: 0 }),
];

export const topPOption: OptionOf<number> = [
  '--top-p <p>',
  'sample from the smallest set of tokens with this probability',
  number('--top-p', { above: 0, max: 1 }),
];

export const seedOption: OptionOf<number> = ['--seed <n>', 'seed of the sampling', whole('--seed')];

/** Collects an option that may stand more than once. */
export const collect = (text: string, all: readonly string[] = []): readonly string[] => [...all, text];
