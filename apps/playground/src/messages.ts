import type { Progress } from '@kv/hub/browser';
import type { Fate } from '@kv/engine';
import type { RunChoice } from './choice.ts';
import type { TextChoice } from './worker/choose.ts';

/** Index of a policy, from 0. */
export type Side = number;

/** The prompt that all sides answer. */
export interface PromptSummary {
  readonly text: string;
  /** Span of each token in `text`. */
  readonly offsets: readonly (readonly [start: number, end: number])[];
  /** First position of the question, if it is asked after the eviction. */
  readonly questionFrom?: number;
  /** The hidden fact, and the positions of its tokens. */
  readonly value?: string;
  readonly valueTokens: readonly number[];
}

/** The cache when one token was chosen. */
export interface Frame {
  /** Positions fed so far. */
  readonly length: number;
  /** `[KV heads of all layers, length]`: 1 where the cache holds the position. */
  readonly kept: Uint8Array;
  /** Level of each of these, an index among `LEVELS`, under a policy that demotes slots. */
  readonly levels?: Uint8Array;
  /** Text of the chosen token, which is not in the cache yet. */
  readonly token: string;
  /** The answer up to this token. */
  readonly answer: string;
  /** Bytes in use, their maximum so far, and the mean number of slots per KV head. */
  readonly bytes: number;
  readonly peak: number;
  readonly slots: number;
  /** Tokens per second so far; undefined before the first token was fed. */
  readonly prefillSpeed: number;
  readonly decodeSpeed?: number;
}

/** How a side ended. */
export interface End {
  readonly policy: string;
  readonly evicts: boolean;
  readonly finish: string;
  readonly notes: readonly string[];
}

/** The device used, and why it is not a GPU. */
export interface DeviceInfo {
  readonly device: 'webgpu' | 'cpu';
  readonly name: string;
  readonly because?: string;
}

export type ToWorker =
  | {
      /** `choose`: says which of many policies loses least of the choice's own text in its budget. */
      readonly type: 'run' | 'choose';
      readonly run: number;
      readonly choice: RunChoice;
      /** Folder of the model, and the names of its files. */
      readonly model: { readonly url: string; readonly files: readonly string[] };
      /** Local files, if the choice names one. */
      readonly chosen: readonly File[];
      /** Whether a model of the hub may be downloaded: a link alone downloads nothing. */
      readonly download: boolean;
    }
  /** Asks why a position is, or is no longer, in the cache of a side. */
  | { readonly type: 'why'; readonly run: number; readonly side: Side; readonly position: number }
  | { readonly type: 'forget' }
  | { readonly type: 'stop' };

export type FromWorker =
  | { readonly type: 'opened'; readonly opened: DeviceInfo }
  | {
      readonly type: 'prompt';
      readonly run: number;
      readonly prompt: PromptSummary;
      /** KV heads of each layer that keeps slots. */
      readonly heads: readonly number[];
    }
  | { readonly type: 'frame'; readonly run: number; readonly side: Side; readonly frame: Frame }
  | { readonly type: 'end'; readonly run: number; readonly side: Side; readonly end: End }
  /** Failure of one side, or, without `side`, of the run. */
  | { readonly type: 'failed'; readonly run: number; readonly side?: Side; readonly message: string }
  | { readonly type: 'progress'; readonly run: number; readonly progress: Progress }
  | {
      readonly type: 'why';
      readonly run: number;
      readonly side: Side;
      readonly position: number;
      /** For every layer and KV head; empty if nothing was evicted. */
      readonly fates: readonly Fate[];
      /** Why there is no explanation. */
      readonly failed?: string;
    }
  | { readonly type: 'chosen'; readonly run: number; readonly chosen: TextChoice }
  | { readonly type: 'forgotten' }
  | { readonly type: 'done'; readonly run: number };
