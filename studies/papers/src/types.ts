import type { Budget } from '@kv/models';
import type { GeneratedTask } from '@kv/tasks';
import type { Mode } from '@kv/evaluation';

export const paperNames = ['TA', 'CAOTE', 'CrystalCache', 'alpha', 'PrHS'] as const;
export type Paper = (typeof paperNames)[number];

/** A task that policies are tried on; a trial is one prompt, the same for every arm. */
export type Task =
  /**
   * A code or number hidden in prose or repeated filler, at `depth` in every prompt if it is given; read block by block
   * if `block` is.
   */
  | {
      readonly kind: 'needle';
      readonly tokens: number;
      readonly mode: Mode;
      readonly form: 'code' | 'number';
      /** Digits of a number. @defaultValue 7 */
      readonly digits?: number;
      readonly depth?: number;
      readonly block?: number;
      readonly distractors?: number;
      readonly filler?: true;
      readonly asking?: Asking;
    }
  /**
   * A fact at a depth, after a framing sentence at the start if `framed`, mentions of its topic evenly spaced through the
   * filler after it, the question at the end: after the eviction, or before it if `mode` is `aware`.
   */
  | {
      readonly kind: 'association';
      readonly tokens: number;
      readonly density: 'high' | 'low';
      /** @defaultValue 'agnostic' */
      readonly mode?: Mode;
      readonly framed?: true;
      /** @defaultValue 0, the start */
      readonly depth?: number;
      readonly asking?: Asking;
    }
  /**
   * One credential handed over in a tool call, or an API key, an endpoint and a token apart from each other; asked for
   * by a tool call.
   */
  | { readonly kind: 'credential'; readonly tokens: number; readonly values: 1 | 3; readonly asking?: Asking }
  /** A task of `kv eval` by its name, in at most `tokens` tokens; its question comes after the eviction. */
  | { readonly kind: 'generated'; readonly tokens: number; readonly task: GeneratedTask }
  /**
   * Log-likelihood of `follow` tokens of prose after `context` tokens that were evicted, block by block if `block` is
   * given; with `every`, an event after each that many of them; if `witnessed`, the attention that views hide from each
   * of them.
   */
  | {
      readonly kind: 'continuation';
      readonly context: number;
      readonly follow: number;
      readonly block?: number;
      readonly every?: number;
      readonly witnessed?: true;
    }
  /** Log-likelihood of every token of a prompt, under a policy that acts while the prompt passes. */
  | { readonly kind: 'prompt'; readonly tokens: number }
  /** Similarity of two scorers' rankings of the same cache. */
  | { readonly kind: 'ranks'; readonly tokens: number; readonly with: string }
  /** Time and bytes of a prefill that evicts, and of `follow` tokens after it. */
  | { readonly kind: 'costs'; readonly tokens: number; readonly follow: number; readonly every?: number };

/**
 * `begun`: a question and the beginning of its answer, which a model that was not trained on our forms answers too. Its
 * answers end with the value, and an arm decodes token by token only if it would not give the full cache's answer.
 * Without it: a cue and equally many tokens from every arm.
 */
type Asking = 'begun';

/**
 * An arm: a policy as `kv run --policy` takes it, with its budget or, for a policy that evicts nothing, what a query
 * sees.
 */
export interface Arm {
  readonly policy: string;
  readonly budget?: Budget;
}

/** Returns the name of an arm in results. */
export const armKey = ({ policy, budget }: Arm): string => (budget === undefined ? policy : `${policy} @ ${budget}`);
/** The arm without eviction, to compare others with. */
export const FULL: Arm = { policy: 'full' };

interface Measure {
  readonly better: 'higher' | 'lower';
  readonly says: string;
  readonly share?: true;
  /** A natural logarithm: a difference of two is a ratio. */
  readonly log?: true;
}
const higher = (says: string): Measure => ({ better: 'higher', says }),
  lower = (says: string): Measure => ({ better: 'lower', says });
/** A quantity measured for an arm on one prompt. */
export type Metric =
  | 'hit'
  | 'retained'
  | 'keptTokens'
  | 'nll'
  | 'spearman'
  | 'spearmanLeast'
  | 'retrievals'
  | 'keyBytes'
  | 'hiddenMass'
  | 'overlap'
  | 'eventShare'
  | 'stepTime'
  | 'turnTime'
  | 'peakBytes';
export const metrics: Readonly<Record<Metric, Measure>> = {
  hit: { ...higher('right answers'), share: true },
  retained: { ...higher('whole values, share of layers and KV heads'), share: true },
  keptTokens: { ...higher('tokens of values, share over layers and KV heads'), share: true },
  nll: lower('nats a token'),
  spearman: higher('rank correlation, mean of layers'),
  spearmanLeast: higher('rank correlation, least of layers'),
  retrievals: lower('retrieval ratio'),
  keyBytes: lower('keys and values read a token, against the full cache'),
  hiddenMass: lower("share of the newest query's attention that is hidden"),
  overlap: higher('share of what is seen that is among as many heaviest'),
  eventShare: lower('event, against the rest of prefill'),
  stepTime: { ...lower('ln ms a token'), log: true },
  turnTime: { ...lower('ln ms of prefill, event and tokens'), log: true },
  peakBytes: { ...lower('ln peak bytes'), log: true },
};
/** The task's metrics, and `slots`: mean slots per layer and KV head over decoding. */
export type Numbers = Readonly<Partial<Record<Metric | 'slots', number>>>;

/**
 * One comparison on one task, paired by prompt: `a` is better than `b` by more than `threshold`. Without `b`: `a`
 * itself is better than `threshold`.
 */
export interface Contrast {
  /** Name of a task of the plan. */
  readonly task: string;
  readonly metric: Metric;
  readonly a: Arm;
  readonly b?: Arm;
  readonly threshold: number;
  /** Shares of right answers that the paper printed for both, which power is computed from. */
  readonly printed?: readonly [a: number, b: number];
  /** `worse`: the promise is that `a` costs something, so it must be worse than `b` by more than `threshold`. */
  readonly direction?: 'worse';
  /** The only kind of model that is asked: some tasks are beyond the embedded model. */
  readonly on?: Kind;
}

/** How the contrasts of a row determine its verdict. */
export type Rule =
  /** All hold. */
  | 'all'
  /** Every one points in the promised direction. */
  | 'signs'
  /** The best arm on the first 50 prompts gains less on the others. */
  | 'shrink';

/** A row of papers.md. */
interface Promised {
  readonly id: string;
  readonly paper: Paper;
  /** First column of papers.md, word for word, unless `table` is given. */
  readonly claim: string;
  /** Place in the paper of a row that papers.md leaves out. */
  readonly table?: string;
  /** What the paper measured. */
  readonly promise: string;
}
/** A row that is asked. */
export interface Planned extends Promised {
  readonly rule: Rule;
  /** Number of prompts of each task, on the embedded model and on a checkpoint. */
  readonly n: { readonly embedded: number; readonly real: number };
  readonly contrasts: readonly Contrast[];
  /** How this differs from the paper's conditions. */
  readonly differs: string;
}
/** A row that is not asked, and why. */
export interface Excused extends Promised {
  readonly excuse: string;
}
export type Row = Planned | Excused;

/** A plan, fixed before its prompts were run. */
export interface Plan {
  /** Seed of the study's prompts; every other seed is for development. */
  readonly seed: number;
  /** How verdicts are made, word for word as they are printed with the plan. */
  readonly rules: readonly string[];
  /** Tasks by name: rows with the same task share its prompts, prefills and full-cache runs. */
  readonly tasks: Readonly<Record<string, Task>>;
  readonly rows: readonly Row[];
  /** The part of the text that prose is taken from, as shares. @defaultValue the last 70 % */
  readonly prose?: readonly [from: number, to: number];
  /** The only kind of model that the plan is for. @defaultValue both */
  readonly on?: Kind;
  /** Share of right answers of the full cache below which a task is beyond the model. @defaultValue 0.5 */
  readonly able?: number;
}
/** The model that this repository brings, or any checkpoint. */
export type Kind = 'embedded' | 'real';
export const isPlanned = (row: Row): row is Planned => 'contrasts' in row;
export const kindOf = ({ name }: { readonly name: string }): Kind => (name === 'embedded' ? 'embedded' : 'real');
