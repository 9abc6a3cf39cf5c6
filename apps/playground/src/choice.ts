import type { Budget } from '@kv/models';
import type { NeedleForm } from '@kv/tasks';

/** A fact hidden in a book: what `needle` of @kv/tasks makes of it. */
export interface NeedlePrompt {
  readonly kind: 'needle';
  readonly form: NeedleForm;
  /** Document and question together. */
  readonly tokens: number;
  /** Where the fact stands, percent of the document. */
  readonly depth: number;
  readonly seed: number;
}

/** A prompt that a person wrote. */
interface OwnText {
  readonly kind: 'text';
  readonly text: string;
}

/** What computes: the model of the page, a GGUF file of this disk, or a repository of the Hugging Face hub. */
export interface ModelChoice {
  readonly kind: (typeof MODELS)[number];
  /** Of the file or repository; empty for the page's own. */
  readonly name: string;
}

export const MODELS = ['embedded', 'file', 'hub'] as const;
export const DEVICES = ['auto', 'webgpu', 'cpu'] as const;
export type DeviceChoice = (typeof DEVICES)[number];

/** Everything that a run depends on. */
export interface RunChoice {
  readonly model: ModelChoice;
  readonly source: NeedlePrompt | OwnText;
  /** Evict before the question, the last line, is known. */
  readonly late: boolean;
  /** As @kv/policies reads them; may be text that it refuses. */
  readonly policies: readonly string[];
  readonly budget: Budget;
  readonly maxNewTokens: number;
  readonly device: DeviceChoice;
}

export const FORMS: readonly NeedleForm[] = ['code', 'number'];
export const LENGTHS: readonly number[] = [96, 128, 256, 512, 1024, 2048];

/** What a choice may hold: addresses come from anywhere. */
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
  policies: ['snapkv(window=16,kernel=17,pooling=max)', 'streaming'],
  budget: '25%',
  maxNewTokens: 12,
  device: 'auto',
};

/** What a side is called. */
export const letterOf = (side: number): string => String.fromCharCode(65 + side);
