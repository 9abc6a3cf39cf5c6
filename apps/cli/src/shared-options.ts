import { flag, maybe } from '@kv/core';
import type { Option } from '@kv/core';
import { schemas } from '@kv/engine';
import type { Command } from 'commander';
import { lists } from './option-values.ts';

/** Defines a flag without a value. */
export const on = (says: string): Option<true | undefined> => maybe(flag(false, says)) as Option<true | undefined>;

/** Sampling options; greedy by default. */
export const sampled = {
  temperature: maybe(schemas.SAMPLING.temperature, 'greedy'),
  topP: maybe(schemas.SAMPLING.topP, '1'),
  seed: maybe(schemas.SAMPLING.seed, '0'),
};

/** Values of `--policies` and `--policy`. */
export interface PolicyFlags {
  readonly policies?: readonly string[];
  readonly policy?: readonly string[];
}
/** Adds `--policies` and `--policy`, which are the same; `which` says what is done with them. */
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
/** Returns the policies asked for, or else the usual ones. */
export const policiesOf = ({ policies = [], policy = [] }: PolicyFlags, usual: readonly string[]): readonly string[] =>
  policies.length + policy.length > 0 ? [...new Set([...policies, ...policy])] : usual;

/** Collects an option that may be given more than once. */
export const collect = (text: string, all: readonly string[] = []): readonly string[] => [...all, text];
