import { entries } from '@kv/core';
import { catalogue, policyNames } from '@kv/policies';

/** What is worth comparing first on the embedded model, with options for short prompts. */
export const COMMON: readonly (readonly [text: string, label: string])[] = [
  ['full', 'full: evicts nothing'],
  ['streaming', 'streaming: sinks and the most recent'],
  ['snapkv(window=16,kernel=17,pooling=max)', 'SnapKV: what the last 16 tokens look at'],
  ['snapkv(window=16,kernel=17,pooling=max) ∘ caote ∘ topK', 'SnapKV, then CAOTE'],
  ['pyramidal(window=16,kernel=17)', 'PyramidKV: fewer slots in later layers'],
  ['h2o', 'H2O: attention of all queries'],
  ['tova', "TOVA: the newest query's attention"],
  ['taFast(reach=12,slots=24)', 'TA-Fast: vouchers for what follows an anchor'],
  ['keydiff', 'KeyDiff: keys unlike the others'],
  ['chunkkv(window=16)', 'ChunkKV: whole chunks'],
  ['adakv(window=16)', 'Ada-KV: budgets by head'],
  ['random', 'random'],
];

export interface PresetGroup {
  readonly label: string;
  readonly presets: readonly (readonly [text: string, label: string])[];
}

/** What the method of a name says of itself, or else the piece. */
function saying(name: string): string {
  const found = entries(catalogue).filter(({ factory }) => factory.description.name === name);
  const { factory } = found.find(({ factory: { description } }) => description.kind === 'method') ?? found[0];
  return factory.description.says;
}

/** Policies to pick from: common ones, then the whole catalogue with its defaults. */
export const presetGroups: readonly PresetGroup[] = [
  { label: 'Common', presets: COMMON },
  {
    label: 'All, with their defaults',
    presets: policyNames
      .filter((name) => !COMMON.some(([text]) => text === name))
      .map((name) => [name, `${name}: ${saying(name)}`] as const),
  },
];
