import { flag, KvError, maybe, text } from '@kv/core';
import type { Option } from '@kv/core';
import { schemas } from '@kv/engine';
import type { SamplerOptions } from '@kv/models';
import { deviceOption, type Device } from './device.ts';
import { engineOption, type CpuEngine } from './engine.ts';
import { flagOf } from './flags.ts';
import { modelOption } from './model-source.ts';

/** Defines a flag without a value. */
export const on = (says: string): Option<true | undefined> => maybe(flag(false, says)) as Option<true | undefined>;

/** The option `--chat-template`, which `withModel` reads. */
export const chatTemplateOption = maybe(
  text(
    '',
    'a file',
    "A chat template in Jinja, in place of the model's own, such as one that writes calls of functions.",
  ),
  "the model's own",
);

/** Sampling options; greedy by default. */
export const sampled = {
  ...schemas.SAMPLING,
  temperature: maybe(schemas.SAMPLING.temperature, 'greedy'),
  topK: maybe(schemas.SAMPLING.topK, '0'),
  topP: maybe(schemas.SAMPLING.topP, '1'),
  minP: maybe(schemas.SAMPLING.minP, '0'),
  seed: maybe(schemas.SAMPLING.seed, '0'),
};
/** Options of draws, which mean nothing without a temperature. */
const DRAWING = ['topK', 'topP', 'minP', 'seed'] as const;

/** Checks that options of draws come with a temperature. @throws KvError for one that does not */
export function expectDrawn(options: SamplerOptions): void {
  const drawing = DRAWING.find((name) => options[name] !== undefined);
  if (drawing !== undefined && options.temperature === undefined)
    throw new KvError(flagOf(drawing), 'expected --temperature too, got greedy decoding');
}

/** Returns the options of the machine of a command; `engine` is the default of `--engine`. */
export const machineOptions = (
  engine: CpuEngine,
): { readonly model: Option<string>; readonly engine: Option<CpuEngine>; readonly device: Option<Device> } => ({
  model: modelOption,
  engine: engineOption(engine),
  device: deviceOption,
});

/** Returns the option `--cache`. @param load the command's flag for a saved cache, which keeps its form */
export const cacheOption = (load?: string): typeof schemas.CACHE => ({
  ...schemas.CACHE,
  otherwise: `${schemas.CACHE.otherwise}${load === undefined ? '' : `; with ${load} as it was saved`}`,
});

/** The options `--policies` and `--policy`, which are the same; `policies` gives the default and what is done with them. */
export const policyOptions = (
  policies: Option<readonly string[]>,
): { readonly policies: typeof policies; readonly policy: Option<readonly string[] | undefined> } => ({
  policies,
  policy: maybe({ ...policies, says: 'The same as --policies; both may be given again.' }),
});
/** Returns the policies of the two flags: the defaults unless one of them was given. */
export const policiesOf = (
  { policies, policy = [] }: { readonly policies: readonly string[]; readonly policy?: readonly string[] | undefined },
  { default: usual }: Option<readonly string[]>,
): readonly string[] => [...new Set([...(policies === usual && policy.length > 0 ? [] : policies), ...policy])];
