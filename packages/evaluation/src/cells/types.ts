import { formNames, parseBudget } from '@kv/core/engine';
import type { CacheForm } from '@kv/engine';
import type { Budget } from '@kv/models';
import { grade } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import Type from 'typebox';
import type { Static } from 'typebox';
import type { Evidence } from './evidence.ts';

/** Version of cell results: cells of another version are run again. Increase it when their fields or meaning change. */
export const CELLS = 3;

/** A budget as files have it: slots per layer and KV head, a share such as "25%" or "25% of f16", or bytes as "64MiB". */
export type FileBudget = Exclude<Budget, object>;
/** Schema of a budget; `parseBudget` says which texts are one. */
export const OneBudget = Type.Union([Type.Integer({ minimum: 1 }), Type.String({ maxLength: 40 })]);
export const isFileBudget = (x: unknown): x is FileBudget => typeof x !== 'object' && parseBudget(x) !== undefined;

/** How a cache is stored. */
export const OneCache = Type.Unsafe<CacheForm>(Type.Union(formNames.map((form) => Type.Literal(form))));
/** The form of caches where none is named: exact, so that results do not depend on an engine's choice. */
export const EXACT: CacheForm = 'f32';

/** Options of generation. */
export const GENERATION = {
  /** `aware`: the question is in the prompt before the eviction; `agnostic`: it comes after. */
  mode: Type.Optional(Type.Union([Type.Literal('aware'), Type.Literal('agnostic')])),
  /** Generated tokens between two events. */
  every: Type.Optional(Type.Integer({ minimum: 1, maximum: 2 ** 20 })),
  /** Prefill in blocks of this many tokens. */
  block: Type.Optional(Type.Integer({ minimum: 1, maximum: 2 ** 20 })),
  /** Maximum tokens of an answer, instead of those of the problems. */
  maxNewTokens: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_536 })),
  /** 0 is greedy. */
  temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 100 })),
  topP: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
};
export const GenerationSchema = Type.Object(GENERATION, { additionalProperties: false });
type All = Static<typeof GenerationSchema>;
/** How answers are generated, as sweep files have it. */
export type GenerationOptions = { readonly [K in keyof All]?: All[K] | undefined };

/** Problems of each task, by its name. */
export type Tasks = Readonly<Record<string, readonly Problem[]>>;

/** One answer to one problem under one policy at one budget. */
export interface Cell {
  readonly task: string;
  /** Id of the problem. */
  readonly problem: string;
  readonly policy: string;
  /** Absent if nothing is evicted. */
  readonly budget?: FileBudget;
  /** How the cache is stored. @defaultValue f32 */
  readonly cache?: CacheForm;
  /** Seed of sampling and of random policies; the same for every policy. */
  readonly seed: number;
}

/** Returns a unique name of a cell. */
export const cellId = ({ task, problem, policy, budget, cache, seed }: Cell): string =>
  JSON.stringify([task, problem, policy, budget ?? null, seed, ...(cache ? [cache] : [])]);

interface Extent {
  /** Mean over the whole generation. */
  readonly mean: number;
  readonly peak: number;
}
/** The result of a cell; independent of the clock. */
export interface CellResult extends Cell {
  readonly id: string;
  /** Document of the problem, where several ask about one. */
  readonly document?: string;
  readonly answer: string;
  /** From 0 to 1. */
  readonly score: number;
  /** Whether the answer had the requested form. */
  readonly parsed: boolean;
  /** Generated tokens. */
  readonly tokens: number;
  /** Slots per layer and KV head: the mean over all of them, and the peak of the fullest. */
  readonly slots: Extent;
  /** Bytes of keys, values, positions and the policy's state. */
  readonly bytes: Extent;
  /** Certificates, and what was kept of the prompt. */
  readonly evidence: Evidence;
}

/** The measured part of a cell's result, from which the rest follows, given the cell and its problem. */
export type CellOutcome = Pick<CellResult, 'answer' | 'tokens' | 'slots' | 'bytes' | 'evidence'>;

export const cellResult = (
  cell: Cell,
  problem: Problem,
  { answer, tokens, slots, bytes, evidence }: CellOutcome,
): CellResult => ({
  id: cellId(cell),
  ...cell,
  ...(problem.document !== undefined && { document: problem.document }),
  answer,
  ...grade(answer, problem),
  tokens,
  slots,
  bytes,
  evidence,
});

/** Picks the options of generation from an object with others. */
export const generationOf = ({
  mode,
  every,
  block,
  maxNewTokens,
  temperature,
  topP,
}: GenerationOptions): GenerationOptions => ({
  mode,
  every,
  block,
  maxNewTokens,
  temperature,
  topP,
});
