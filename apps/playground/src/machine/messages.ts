import type { Budget, CacheForm } from '@kv/models';
import type { CacheChoice, DeviceChoice } from '../choice.ts';
import type { DeviceInfo } from '../messages.ts';
import type { FromModels, ModelRequest, ToModels } from '../model-messages.ts';
import type { Computer } from '../worker/device.ts';

/** What to measure. */
export interface MeasurePlan {
  /** Tokens of the prompts, shortest first. */
  readonly lengths: readonly number[];
  /** The policy of every second row, as text. */
  readonly policy: string;
  readonly budget: Budget;
  readonly device: DeviceChoice;
  readonly cache: CacheChoice;
  /** Runs of which each row shows the median. */
  readonly repeats: number;
}

/** All slots, or those that the policy keeps. */
type CacheKind = 'full' | 'kept';

/** One row of the table. */
export interface MeasuredRow {
  readonly device: DeviceInfo['device'];
  readonly tokens: number;
  readonly cache: CacheKind;
  /** Slots after the prompt, the mean over layers and KV heads, and their bytes as they are stored. */
  readonly slots: number;
  readonly bytes: number;
  readonly form: CacheForm;
  /** Tokens a second, medians. */
  readonly prefill: number;
  readonly decode: number;
}

/** A device that is measured, or why it is not. */
export interface MeasuredDevice {
  readonly device: DeviceInfo['device'];
  readonly name: string;
  readonly adapter?: Computer['adapter'];
  /** Why it is not measured. */
  readonly because?: string;
}

export type ToMachine =
  | { readonly type: 'model'; readonly message: ToModels }
  | { readonly type: 'measure'; readonly request: ModelRequest; readonly plan: MeasurePlan };

export type FromMachine =
  | { readonly type: 'model'; readonly message: FromModels }
  | { readonly type: 'loaded'; readonly context: number }
  | { readonly type: 'device'; readonly device: MeasuredDevice }
  /** A row is being measured. */
  | {
      readonly type: 'begun';
      readonly device: DeviceInfo['device'];
      readonly tokens: number;
      readonly cache: CacheKind;
    }
  | { readonly type: 'row'; readonly row: MeasuredRow }
  /** A device cannot be measured any further. */
  | { readonly type: 'failed'; readonly device: DeviceInfo['device']; readonly message: string }
  | { readonly type: 'done' };
