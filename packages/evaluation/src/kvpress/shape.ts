import Type from 'typebox';

const text = Type.String(),
  share = Type.Number({ minimum: 0, maximum: 1 }),
  none = Type.Null();

/** The three files of a result folder. */
export const FILES = { config: 'config.yaml', predictions: 'predictions.csv', metrics: 'metrics.json' } as const;

/** The fields of kvpress' `EvaluationConfig` that rows need; other versions have additional fields. */
export const Config = Type.Object({
  dataset: Type.String({ minLength: 1 }),
  data_dir: Type.Optional(Type.Union([none, text, Type.Integer()])),
  model: Type.String({ minLength: 1 }),
  press_name: Type.String({ minLength: 1 }),
  /** Share removed; absent if a threshold or a share of heads is given instead. */
  compression_ratio: Type.Optional(share),
  threshold: Type.Optional(Type.Number()),
  head_compression_ratio: Type.Optional(share),
  query_aware: Type.Optional(Type.Boolean()),
});

/** RULER's metrics: percent for each task. */
export const RulerMetrics = Type.Record(text, Type.Object({ string_match: Type.Number({ minimum: 0, maximum: 100 }) }));
/** Metrics of answers that are right or wrong. */
export const CountedMetrics = Type.Object({ accuracy: share, total: Type.Integer({ minimum: 1 }) });

/** Cleans a RULER answer as kvpress does: removes control characters, which RULER replaces by line breaks. */
export const cleanAnswer = (answer: string): string =>
  answer
    .trim()
    .replace(/[\x00-\x1f]/g, '')
    .trim();

/** Rounds a share to percent with two digits as Python does, except for ties. */
export const percentOf = (share: number): number => Math.round(100 * share * 100) / 100;

/** Returns kvpress' grader of a RULER task. */
export const rulerGrader = (task: string): 'any' | 'all' => (task.split('_')[0] === 'qa' ? 'any' : 'all');

/** kvpress' data sets whose answers are graded by what stands in a box. */
export const BOXED: ReadonlySet<string> = new Set(['math500', 'aime25']);

/** Grades an answer of such a data set as kvpress does: what stands up to the first closing brace, as text. */
export function boxedScore(dataset: string, said: string, answer: string): number {
  const parts = said.split('boxed{'),
    inside = (dataset === 'math500' ? parts[1] : parts.at(-1))?.split('}')[0];
  return Number(inside === answer);
}

/** kvpress' data sets that have one metric by which single answers are not graded here, with its maximum. */
export const WHOLE: Readonly<Record<string, number>> = { longbench: 100, infinitebench: 1 };
