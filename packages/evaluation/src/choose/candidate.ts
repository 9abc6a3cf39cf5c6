import type { FileBudget } from '../cells/types.ts';

/** A policy at a budget, before it runs. */
export interface Candidate {
  /** Policy text, as `kv run --policy` takes it. */
  readonly policy: string;
  /** What an event leaves, as `kv serve --budget` takes it: slots per layer and KV head, '25%' or '64MiB'. */
  readonly budget: FileBudget;
  /** Predicted share of the slots kept, mean over the prompts. */
  readonly share: number;
  /** Predicted bytes of the cache after the event, mean over the prompts. */
  readonly bytes: number;
  /** Predicted cost of the event and the answer on one prompt, in passes of the full cache over it. */
  readonly cost: number;
}

/** The full cache on a prompt. */
export interface Reference {
  /** Tokens of its greedy answer. */
  readonly tokens: number;
  /** The answer's grade, 0 to 1; absent without answers. */
  readonly right?: number;
  /** Whether the answer has the form that the grader reads; absent without answers. */
  readonly parsed?: boolean;
  /** Slots per layer and KV head. */
  readonly slots: number;
  readonly bytes: number;
  /** Milliseconds of reading the prompt, and its answer over the cache. */
  readonly ms: number;
}

/** What a candidate did on a prompt, compared with the full cache on it. */
export interface Outcome {
  /** Divergence of the next token along the full cache's answer, in nats a token. */
  readonly kl: number;
  /** Whether the greedy answer is the full cache's. */
  readonly same: boolean;
  /** The answer's grade, 0 to 1; absent without answers. */
  readonly right?: number;
  /** Share of layers and KV heads that hold every token of the right answer; absent where it is not in the prompt. */
  readonly held?: number;
  /** Slots per layer and KV head after the event, and bytes of the cache. */
  readonly slots: number;
  readonly bytes: number;
  /** Milliseconds of reading the prompt, of the event, and of reading the full cache's answer over what it left. */
  readonly ms: number;
  /** It was not run: a smaller and a larger budget of the policy lost the same on this prompt. */
  readonly inferred?: true;
}
