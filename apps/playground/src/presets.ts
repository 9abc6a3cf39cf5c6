import { entries } from '@kv/core';
import { compile } from '@kv/core/engine';
import { catalogue, policy, policyNames, recommendedPolicies } from '@kv/policies';

export interface PresetGroup {
  readonly label: string;
  readonly presets: readonly (readonly [text: string, label: string])[];
}

/** Policies worth comparing next on the embedded model, with options for short prompts. */
const COMMON: PresetGroup = {
  label: 'Common',
  presets: [
    ['full', 'full: evicts nothing'],
    ['snapkv(window=16,kernel=17,pooling=max)', 'SnapKV: what the last 16 tokens look at'],
    ['pyramidal(window=16,kernel=17)', 'PyramidKV: fewer slots in later layers'],
    ['h2o', 'H2O: attention of all queries'],
    ['tova', "TOVA: the newest query's attention"],
    ['keydiff', 'KeyDiff: keys unlike the others'],
    ['random', 'random'],
  ],
};

/** Returns a policy's pieces without options, for a label. */
const outline = (text: string): string => text.replaceAll(/\([^)]*\)/g, '').replace(/ \| topK$/, '');

const RECOMMENDED: PresetGroup = {
  label: 'Recommended',
  presets: recommendedPolicies.map(({ when, policy: text }) => [text, `${outline(text)}: ${when}`]),
};

/** The twelve policies to try first. */
export const firstPresets: PresetGroup['presets'] = [...RECOMMENDED.presets, ...COMMON.presets];

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
const first = new Set(firstPresets.map(([text]) => /^\w+/.exec(text)?.[0]));
const others = policyNames.filter((name) => !first.has(name)).toSorted((a, b) => a.localeCompare(b));

/**
 * Policies to pick from: recommended and common ones, twelve in all, then the rest of the catalogue with its defaults,
 * grouped by what they base their choice on.
 */
export const presetGroups: readonly PresetGroup[] = [
  RECOMMENDED,
  COMMON,
  ...[...new Set(others.map(basisOf))].toSorted().map((label) => ({
    label,
    presets: others
      .filter((name) => basisOf(name) === label)
      .map((name) => [name, `${name}: ${saying(name)}`] as const),
  })),
];
