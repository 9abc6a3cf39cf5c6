import Type from 'typebox';

const text = Type.String(),
  share = Type.Number({ minimum: 0, maximum: 1 }),
  none = Type.Null();

/** The three files of a result folder. */
export const FILES = { config: 'config.yaml', predictions: 'predictions.csv', metrics: 'metrics.json' } as const;

/** Of kvpress' `EvaluationConfig` what rows need; other versions have other fields beside these. */
export const Config = Type.Object({
  dataset: Type.String({ minLength: 1 }),
  data_dir: Type.Optional(Type.Union([none, text, Type.Integer()])),
  model: Type.String({ minLength: 1 }),
  press_name: Type.String({ minLength: 1 }),
  /** Share that is removed; absent beside a threshold or a share of heads. */
  compression_ratio: Type.Optional(share),
  threshold: Type.Optional(Type.Number()),
  head_compression_ratio: Type.Optional(share),
  query_aware: Type.Optional(Type.Boolean()),
});

/** RULER's metrics: a share of 100 a task. */
export const RulerMetrics = Type.Record(text, Type.Object({ string_match: Type.Number({ minimum: 0, maximum: 100 }) }));
/** Metrics of answers that are right or wrong. */
export const CountedMetrics = Type.Object({ accuracy: share, total: Type.Integer({ minimum: 1 }) });

/** kvpress' clean-up of a RULER answer: control characters go, where RULER makes line breaks of them. */
export const cleanAnswer = (answer: string): string =>
  answer
    .trim()
    .replace(/[\x00-\x1f]/g, '')
    .trim();

/** As Python rounds to two digits, up to ties. */
export const percentOf = (share: number): number => Math.round(100 * share * 100) / 100;

/** kvpress' grader of a RULER task. */
export const rulerGrader = (task: string): 'any' | 'all' => (task.split('_')[0] === 'qa' ? 'any' : 'all');
