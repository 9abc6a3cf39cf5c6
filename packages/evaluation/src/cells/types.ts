import type { Budget } from '@kv/models';
import { grade } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import Type from 'typebox';
import type { Static } from 'typebox';
import type { Evidence } from './evidence.ts';

/** Grows when cells say more or mean something else: cells of another number are run again. */
export const CELLS = 2;

/** Slots a layer and KV head, or shares such as "25%". */
export const OneBudget = Type.Union([Type.Integer({ minimum: 1 }), Type.String({ pattern: '^\\d+(\\.\\d+)?%$' })]);

/** How answers are generated. */
export const Generating = {
  /** `aware`: the question is in the prompt before the eviction; `agnostic`: it comes after. */
  mode: Type.Optional(Type.Union([Type.Literal('aware'), Type.Literal('agnostic')])),
  /** Tokens between two events while the answer is generated. */
  every: Type.Optional(Type.Integer({ minimum: 1, maximum: 2 ** 20 })),
  /** Prefill in blocks of so many tokens. */
  block: Type.Optional(Type.Integer({ minimum: 1, maximum: 2 ** 20 })),
  /** Longest answer, in place of what problems say. */
  maxNewTokens: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_536 })),
  /** 0 is greedy. */
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  topP: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
};
export const AllGenerating = Type.Object(Generating, { additionalProperties: false });
type All = Static<typeof AllGenerating>;
export type GeneratingOptions = { readonly [K in keyof All]?: All[K] | undefined };

export type Tasks = Readonly<Record<string, readonly Problem[]>>;

/** One answer to one problem under one policy at one budget. */
export interface Cell {
  readonly task: string;
  /** Its id. */
  readonly problem: string;
  readonly policy: string;
  /** Absent where nothing is evicted. */
  readonly budget?: Budget;
  /** Of sampling, and of policies that draw; the same for every policy. */
  readonly seed: number;
}

/** A cell by a name of its own: no two cells have the same. */
export const cellId = ({ task, problem, policy, budget, seed }: Cell): string =>
  JSON.stringify([task, problem, policy, budget ?? null, seed]);

interface Extent {
  /** Over the whole generation. */
  readonly mean: number;
  readonly peak: number;
}
/** What came of a cell: nothing in it depends on the clock. */
export interface CellResult extends Cell {
  readonly id: string;
  readonly answer: string;
  /** From 0 to 1. */
  readonly score: number;
  /** Whether the answer had the form that was asked for. */
  readonly parsed: boolean;
  readonly tokens: number;
  /** Of a layer and KV head: mean over all of them; the peak is that of the fullest. */
  readonly slots: Extent;
  /** Of keys, values, positions and what the policy remembers. */
  readonly bytes: Extent;
  /** What the cache came to: certificates, and what was kept of the prompt. */
  readonly evidence: Evidence;
}

/** What a run of a cell gives: the rest of its result follows from this, the cell and its problem. */
export type CellOutcome = Pick<CellResult, 'answer' | 'tokens' | 'slots' | 'bytes' | 'evidence'>;

export const cellResult = (
  cell: Cell,
  problem: Problem,
  { answer, tokens, slots, bytes, evidence }: CellOutcome,
): CellResult => ({ id: cellId(cell), ...cell, answer, ...grade(answer, problem), tokens, slots, bytes, evidence });

/** The options of these among others. */
export const generatingOf = ({
  mode,
  every,
  block,
  maxNewTokens,
  temperature,
  topP,
}: GeneratingOptions): GeneratingOptions => ({
  mode,
  every,
  block,
  maxNewTokens,
  temperature,
  topP,
});
