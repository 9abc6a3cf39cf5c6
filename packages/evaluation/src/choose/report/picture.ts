import { bytesText } from '@kv/core/shared';
import type { Choice, ChoiceRow } from '../choice.ts';

/** A candidate in a picture. */
export interface Point {
  readonly bytes: number;
  readonly loss: number;
}

/** Returns the candidates that were asked, with their loss on the texts that chose. */
export const pointsOf = ({ rows }: Pick<Choice, 'rows'>): readonly (Point & { readonly row: ChoiceRow })[] =>
  rows.flatMap((row) => (row.loss ? [{ row, bytes: row.bytes, loss: row.loss.mean }] : []));

/** Returns the points that no other beats in both: fewer bytes at no more loss, or less loss at no more bytes; by bytes. */
export function frontierOf<P extends Point>(points: readonly P[]): readonly P[] {
  const found: P[] = [];
  for (const point of points.toSorted((a, b) => a.bytes - b.bytes || a.loss - b.loss))
    if (found.length === 0 || point.loss < found[found.length - 1].loss) found.push(point);
  return found;
}

/** The range of an axis. */
export interface Axis {
  readonly from: number;
  readonly to: number;
}

/**
 * Returns the ranges of the two axes: bytes from 0 to those of the full cache, or around the points where these lie
 * within a quarter of it; losses from 0, or the least below it.
 */
export function axesOf(points: readonly Point[], full: number): { readonly bytes: Axis; readonly loss: Axis } {
  const bytes = points.map((point) => point.bytes),
    [least, most] = [Math.min(...bytes), Math.max(...bytes)],
    wide = most - least > full / 4,
    room = Math.max((most - least) / 8, full / 100),
    losses = points.map(({ loss }) => loss),
    lost = Math.max(0.01, ...losses);
  return {
    bytes: wide ? { from: 0, to: Math.max(full, most) } : { from: Math.max(0, least - room), to: most + room },
    loss: { from: Math.min(0, ...losses), to: lost },
  };
}

/** Marks of a picture, in words. */
export const pictureLegend =
  '# the choice   o the frontier: none keeps more in as few bytes   . other candidates';
const HEIGHT = 12;
/** How strongly a mark shows where several points share a place. */
const STRENGTH = [' ', '.', 'o', '#'];

/**
 * Draws losses against bytes with characters, one point a candidate, least loss at the bottom; readable without colours.
 * @param chosen the point of the choice, one of `points`
 * @param full bytes of the full cache
 * @param width of a line in characters
 */
export function lossPicture<P extends Point>(
  points: readonly P[],
  { chosen, full, width }: { readonly chosen?: P | undefined; readonly full: number; readonly width: number },
): string {
  if (points.length === 0) return '';
  const { bytes, loss } = axesOf(points, full),
    labels = [loss.to, (loss.to + loss.from) / 2, loss.from].map(lossLabel),
    left = Math.max(...labels.map(({ length }) => length)) + 1,
    columns = Math.max(10, Math.min(width, 100) - left - 2),
    at = (value: number, { from, to }: Axis, cells: number): number =>
      Math.min(cells - 1, Math.max(0, Math.round(((value - from) / (to - from)) * (cells - 1)))),
    rows = Array.from({ length: HEIGHT }, () => new Array<string>(columns).fill(' ')),
    best = new Set(frontierOf(points));
  for (const point of points) {
    const row = rows[HEIGHT - 1 - at(point.loss, loss, HEIGHT)],
      column = at(point.bytes, bytes, columns),
      mark = point === chosen ? '#' : best.has(point) ? 'o' : '.';
    if (STRENGTH.indexOf(mark) > STRENGTH.indexOf(row[column])) row[column] = mark;
  }
  const middle = Math.floor((HEIGHT - 1) / 2),
    labelled = new Map([
      [0, labels[0]],
      [middle, labels[1]],
      [HEIGHT - 1, labels[2]],
    ]);
  const lines = rows.map((row, r) => `${(labelled.get(r) ?? '').padStart(left)} |${row.join('')}`.trimEnd()),
    ends = [bytesText(bytes.from), bytesText(bytes.to)],
    between = `bytes of the cache`,
    gap = columns - ends[0].length - ends[1].length - between.length,
    scale =
      gap < 2
        ? `${ends[0]}${' '.repeat(Math.max(1, columns - ends[0].length - ends[1].length))}${ends[1]}`
        : `${ends[0]}${' '.repeat(Math.floor(gap / 2))}${between}${' '.repeat(Math.ceil(gap / 2))}${ends[1]}`;
  return ['loss', ...lines, `${' '.repeat(left)} +${'-'.repeat(columns)}`, `${' '.repeat(left + 2)}${scale}`].join('\n');
}

/** Returns a loss as percent, short. */
export const lossLabel = (loss: number): string => `${(100 * loss).toFixed(loss !== 0 && Math.abs(loss) < 0.1 ? 1 : 0)} %`;
