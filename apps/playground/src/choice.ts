import type { Budget, CacheForm } from '@kv/models';
import { recommendedPolicies } from '@kv/policies';
import type { NeedleForm } from '@kv/tasks';

/** A fact hidden in a book, from `needle` of @kv/tasks. */
export interface NeedlePrompt {
  readonly kind: 'needle';
  readonly form: NeedleForm;
  /** Document and question together. */
  readonly tokens: number;
  /** Depth of the fact, in percent of the document. */
  readonly depth: number;
  readonly seed: number;
}

/** A prompt written by the user. */
interface OwnText {
  readonly kind: 'text';
  readonly text: string;
}

/** The model: the page's own, a local GGUF file, or a repository of the Hugging Face hub. */
export interface ModelChoice {
  readonly kind: (typeof MODELS)[number];
  /** Name of the file or repository; empty for the page's own model. */
  readonly name: string;
}

export const MODELS = ['embedded', 'file', 'hub'] as const;
export const DEVICES = ['auto', 'webgpu', 'cpu'] as const;
export type DeviceChoice = (typeof DEVICES)[number];

/** How caches are stored; `auto` is the engine's choice. */
export const CACHES = ['auto', 'f32', 'f16', 'q8', 'k8v4', 'q4'] as const satisfies readonly (CacheForm | 'auto')[];
export type CacheChoice = (typeof CACHES)[number];
/** Returns the form that a choice names. */
export const formOf = (cache: CacheChoice): CacheForm | undefined => (cache === 'auto' ? undefined : cache);

/** Everything that a run depends on. */
export interface RunChoice {
  readonly model: ModelChoice;
  readonly source: NeedlePrompt | OwnText;
  /** Whether to evict before the question, the last line, is fed. */
  readonly late: boolean;
  /** Policy texts for @kv/policies; may be invalid. */
  readonly policies: readonly string[];
  readonly budget: Budget;
  readonly maxNewTokens: number;
  readonly device: DeviceChoice;
  readonly cache: CacheChoice;
}

export const FORMS: readonly NeedleForm[] = ['code', 'number'];
export const LENGTHS: readonly number[] = [96, 128, 256, 512, 1024, 2048];

/** Limits of a choice, since an address may hold anything. */
export const LIMITS = {
  text: 20_000,
  policy: 2_000,
  policies: 6,
  name: 300,
  seed: 999_999,
  maxNewTokens: 128,
  slots: 4_096,
};

export const DEFAULT: RunChoice = {
  model: { kind: 'embedded', name: '' },
  source: { kind: 'needle', form: 'code', tokens: 512, depth: 50, seed: 1 },
  late: false,
  policies: ['streaming', recommendedPolicies[0].policy], // one loses the fact, the other finds it
  budget: '25%',
  maxNewTokens: 12,
  device: 'auto',
  cache: 'auto',
};

/** Returns the letter of a side. */
export const letterOf = (side: number): string => String.fromCharCode(65 + side);
