import type { Budget, CacheForm, Finish } from '@kv/models';
import type { DeviceChoice } from '../choice.ts';
import type { DeviceInfo } from '../messages.ts';
import type { FromModels, ModelRequest, ToModels } from '../model-messages.ts';

/** Left, under a policy; right, with the full cache. */
export const SIDES = ['left', 'right'] as const;
export type Side = (typeof SIDES)[number];

/** What both conversations depend on. */
export interface ChatChoice {
  /** The left one's policy, as text. */
  readonly policy: string;
  readonly budget: Budget;
  /** Positions that both may use, at most the model's context. */
  readonly window: number;
  /** How both caches are stored. */
  readonly cache: CacheForm;
  /** The longest answer, in tokens. */
  readonly answer: number;
}

/** What a conversation holds in memory. */
export interface MemoryUse {
  /** Bytes of keys and values. */
  readonly bytes: number;
  /** The most bytes at any time, of all that the conversation holds. */
  readonly peak: number;
  /** Bytes of the states that layers without slots carry. */
  readonly states: number;
  /** Bytes of what the policy reads: queries, sums, states of pieces. */
  readonly other: number;
  /** Slots, the mean over layers and KV heads. */
  readonly slots: number;
  /** Tokens of the conversation. */
  readonly tokens: number;
}

export type ToChat =
  | { readonly type: 'model'; readonly message: ToModels }
  | { readonly type: 'open'; readonly request: ModelRequest; readonly device: DeviceChoice }
  | { readonly type: 'send'; readonly text: string; readonly choice: ChatChoice }
  | { readonly type: 'stop' }
  | { readonly type: 'clear' };

/** A model that can be talked with. */
export interface OpenedModel {
  readonly name: string;
  readonly device: DeviceInfo;
  /** Positions of the model's context. */
  readonly context: number;
  /** How its caches can be stored, and the bytes that a token takes in each; and how they are by default. */
  readonly caches: readonly { readonly form: CacheForm; readonly bytesPerToken: number }[];
  readonly cache: CacheForm;
  /** Whether it was trained to chat, as far as its files tell. */
  readonly template: boolean;
}

export type FromChat =
  | { readonly type: 'model'; readonly message: FromModels }
  | { readonly type: 'opened'; readonly model: OpenedModel }
  /** The model could not be loaded, or was lost. */
  | { readonly type: 'closed'; readonly message: string }
  /** The slots that the left one is kept at; none if the policy evicts nothing. */
  | { readonly type: 'retained'; readonly slots?: number }
  | {
      readonly type: 'reading';
      readonly side: Side;
      readonly read: number;
      readonly of: number;
      readonly held: MemoryUse;
    }
  | {
      readonly type: 'chunk';
      readonly side: Side;
      readonly text: string;
      readonly reasoning: string;
      readonly held: MemoryUse;
    }
  | { readonly type: 'ended'; readonly side: Side; readonly finish: Finish; readonly held: MemoryUse }
  /** The window has no room for what was sent, or for more of the answer. */
  | { readonly type: 'full'; readonly side: Side; readonly held: MemoryUse }
  /** Failure of one side, or, without `side`, of all that was asked. */
  | { readonly type: 'failed'; readonly side?: Side; readonly message: string }
  | { readonly type: 'cleared' }
  | { readonly type: 'done' };
