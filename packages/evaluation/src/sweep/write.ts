import type { CellResult } from '../cells/types.ts';
import type { OtherRow } from '../kvpress/read.ts';
import type { SweepContrast } from './contrasts.ts';
import type { SweepAnswers, SweepRow } from './run.ts';
import type { Sweep } from './sweep.ts';
import { csvOf, parquetOf } from './table.ts';
import type { Column } from './table.ts';

/** The result of a sweep. */
export interface SweepOutcome extends SweepAnswers {
  readonly format: 1;
  /** The sweep, redacted. */
  readonly sweep?: Sweep;
  /** The code that produced the results: packages with their versions and digests of their files. */
  readonly code?: readonly string[];
  /** Results of the declared contrasts. */
  readonly contrasts?: readonly SweepContrast[];
  /** Results of another library. */
  readonly others?: readonly OtherRow[];
}

/** Redacts the texts of a sweep. */
export const shownSweep = (sweep: Sweep, redact: (text: string) => string): Sweep =>
  JSON.parse(JSON.stringify(sweep), (_, value: unknown) =>
    typeof value === 'string' ? redact(value) : value,
  ) as Sweep;

/** Formats the result as JSON. The same sweep gives the same bytes. */
export const sweepJson = (outcome: SweepOutcome): string => `${JSON.stringify(outcome, undefined, 1)}\n`;

const text = (value: string | number | undefined): string | undefined => value?.toString();

/** Rows of other libraries lack the columns about caches. */
type AnyRow = SweepRow | (OtherRow & { readonly [K in Exclude<keyof SweepRow, keyof OtherRow>]?: undefined });
const ROWS: readonly Column<AnyRow>[] = [
  ['model', 'STRING', ({ model }) => model],
  ['task', 'STRING', ({ task }) => task],
  ['policy', 'STRING', ({ policy }) => policy],
  ['budget', 'STRING', ({ budget }) => text(budget)],
  ['cache', 'STRING', ({ cache }) => cache],
  ['slots', 'INT64', ({ slots }) => slots],
  ['problems', 'INT64', ({ problems, samples }) => problems ?? samples], // other libraries ask each problem once
  ['samples', 'INT64', ({ samples }) => samples],
  ['accuracy', 'DOUBLE', ({ accuracy }) => accuracy],
  ['low', 'DOUBLE', ({ interval }) => interval?.low],
  ['high', 'DOUBLE', ({ interval }) => interval?.high],
  ['unparsed', 'DOUBLE', ({ unparsed }) => unparsed],
  ['mean slots', 'DOUBLE', ({ meanSlots }) => meanSlots],
  ['peak slots', 'INT64', ({ peakSlots }) => peakSlots],
  ['mean bytes', 'DOUBLE', ({ meanBytes }) => meanBytes],
  ['peak bytes', 'INT64', ({ peakBytes }) => peakBytes],
  ['matched', 'BOOLEAN', ({ matched }) => matched],
  ['shortfall', 'DOUBLE', ({ shortfall }) => shortfall],
  ['perplexity', 'DOUBLE', ({ perplexity }) => perplexity?.value],
  ['perplexity low', 'DOUBLE', ({ perplexity }) => perplexity?.low],
  ['perplexity high', 'DOUBLE', ({ perplexity }) => perplexity?.high],
];

/** Formats the rows as CSV (RFC 4180). */
export const sweepCsv = (rows: readonly (SweepRow | OtherRow)[]): string => csvOf(ROWS, rows as readonly AnyRow[]);

/** Encodes the rows as Parquet, in the columns of the CSV. */
export const sweepParquet = (rows: readonly (SweepRow | OtherRow)[]): Promise<Uint8Array> =>
  parquetOf(ROWS, rows as readonly AnyRow[]);

type Answer = CellResult & { readonly model: string };
const ANSWERS: readonly Column<Answer>[] = [
  ['model', 'STRING', ({ model }) => model],
  ['task', 'STRING', ({ task }) => task],
  ['problem', 'STRING', ({ problem }) => problem],
  ['policy', 'STRING', ({ policy }) => policy],
  ['budget', 'STRING', ({ budget }) => text(budget)],
  ['cache', 'STRING', ({ cache }) => cache],
  ['seed', 'INT64', ({ seed }) => seed],
  ['answer', 'STRING', ({ answer }) => answer],
  ['score', 'DOUBLE', ({ score }) => score],
  ['parsed', 'BOOLEAN', ({ parsed }) => parsed],
  ['tokens', 'INT64', ({ tokens }) => tokens],
  ['mean slots', 'DOUBLE', ({ slots }) => slots.mean],
  ['peak slots', 'INT64', ({ slots }) => slots.peak],
  ['mean bytes', 'DOUBLE', ({ bytes }) => bytes.mean],
  ['peak bytes', 'INT64', ({ bytes }) => bytes.peak],
  ['depth', 'DOUBLE', ({ evidence }) => evidence.depth],
  ['answer kept', 'DOUBLE', ({ evidence }) => evidence.answerKept],
  ['dropped', 'DOUBLE', ({ evidence }) => evidence.dropped],
  ['least possible', 'DOUBLE', ({ evidence }) => evidence.least],
  ['overlap', 'DOUBLE', ({ evidence }) => evidence.overlap],
];

/** Encodes every answer of the rows as Parquet. */
export const answersParquet = (samples: SweepOutcome['samples']): Promise<Uint8Array> =>
  parquetOf(
    ANSWERS,
    Object.entries(samples).flatMap(([model, some]) => some.map((answer) => ({ model, ...answer }))),
  );
