import type { CellResult } from '../cells/types.ts';
import type { SweepRow } from './run.ts';

/** What a sweep came to: rows, and every sample behind them, by model. */
export interface SweepOutcome {
  readonly format: 1;
  readonly rows: readonly SweepRow[];
  readonly samples: Readonly<Record<string, readonly CellResult[]>>;
}

/** As JSON: the same sweep, the same bytes. */
export const sweepJson = (outcome: SweepOutcome): string => `${JSON.stringify(outcome, undefined, 1)}\n`;

const COLUMNS: readonly (readonly [string, (row: SweepRow) => string | number | boolean | undefined])[] = [
  ['model', ({ model }) => model],
  ['task', ({ task }) => task],
  ['policy', ({ policy }) => policy],
  ['budget', ({ budget }) => budget],
  ['slots', ({ slots }) => slots],
  ['samples', ({ samples }) => samples],
  ['accuracy', ({ accuracy }) => accuracy],
  ['low', ({ interval }) => interval?.low],
  ['high', ({ interval }) => interval?.high],
  ['unparsed', ({ unparsed }) => unparsed],
  ['mean slots', ({ meanSlots }) => meanSlots],
  ['peak slots', ({ peakSlots }) => peakSlots],
  ['peak bytes', ({ peakBytes }) => peakBytes],
  ['matched', ({ matched }) => matched],
  ['shortfall', ({ shortfall }) => shortfall],
];

/** The rows as CSV (RFC 4180). */
export const sweepCsv = (rows: readonly SweepRow[]): string =>
  [COLUMNS.map(([title]) => title), ...rows.map((row) => COLUMNS.map(([, cell]) => String(cell(row) ?? '')))]
    .map((cells) => `${cells.map(quoted).join(',')}\r\n`)
    .join('');

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
