import { entries } from '@kv/core';
import { compile } from '@kv/core/engine';
import { catalogue, policy, policyNames } from '@kv/policies';

/** Policies worth comparing first on the embedded model, with options for short prompts. */
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

/** Returns the description of the method of this name, or else of the piece. */
function saying(name: string): string {
  const found = entries(catalogue).filter(({ factory }) => factory.description.name === name);
  const { factory } = found.find(({ factory: { description } }) => description.kind === 'method') ?? found[0];
  return factory.description.says;
}

/** Returns what a policy bases its choice on, for the groups of the list. */
function basisOf(name: string): string {
  const { evicts, needs } = compile(policy(name)),
    reads = (pattern: RegExp): boolean => needs.some(({ id }) => pattern.test(id));
  if (!evicts) return 'Hide slots from queries, evict nothing';
  if (needs.some(({ provide }) => provide)) return 'By another pass of the model, or a file next to it';
  if (reads(/^(?:attention|queries|state)/)) return 'By attention';
  return reads(/^(?:keys|values)/) ? 'By keys and values' : 'By text and positions';
}
const others = policyNames
  .filter((name) => !COMMON.some(([text]) => text === name))
  .toSorted((a, b) => a.localeCompare(b));

/**
 * Policies to pick from: common ones, then the whole catalogue with its defaults, grouped by what they base their
 * choice on.
 */
export const presetGroups: readonly PresetGroup[] = [
  { label: 'Common', presets: COMMON },
  ...[...new Set(others.map(basisOf))].toSorted().map((label) => ({
    label,
    presets: others
      .filter((name) => basisOf(name) === label)
      .map((name) => [name, `${name}: ${saying(name)}`] as const),
  })),
];
