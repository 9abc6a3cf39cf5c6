import { bytesText } from '@kv/core/shared';
import type { Choice, ChoiceRow } from '../choice.ts';
import { lossOf } from './columns.ts';

/** A candidate in a picture. */
export interface Point {
  readonly bytes: number;
  readonly loss: number;
}

/** What is shown of a choice. */
interface Shown {
  /** What a loss is here: `loss`, or `KL` where all losses are alike. */
  readonly title: string;
  readonly points: readonly (Point & { readonly row: ChoiceRow })[];
  readonly labelOf: (loss: number) => string;
}

/**
 * Returns the candidates that were asked as points, with the loss that the table shows, or, where that tells none from
 * another, the divergence along the full cache's answer.
 */
export function shownIn({ rows }: Pick<Choice, 'rows'>): Shown {
  const asked = rows.flatMap((row) => {
      const loss = lossOf(row);
      return loss ? [{ row, loss: loss.mean }] : [];
    }),
    alike = new Set(asked.map(({ loss }) => loss)).size < 2 && asked.length > 1;
  return {
    title: alike ? 'KL' : 'loss',
    points: asked.map(({ row, loss }) => ({ row, bytes: row.bytes, loss: alike ? (row.kl ?? 0) : loss })),
    labelOf: alike
      ? (nats) => nats.toPrecision(2)
      : (loss) => `${(100 * loss).toFixed(loss !== 0 && Math.abs(loss) < 0.1 ? 1 : 0)} %`,
  };
}

/** Returns the points that no other beats in both: fewer bytes at no more loss, or less loss at no more bytes; by bytes. */
export function frontierOf<P extends Point>(points: readonly P[]): readonly P[] {
  const found: P[] = [];
  for (const point of points.toSorted((a, b) => a.bytes - b.bytes || a.loss - b.loss))
    if (found.length === 0 || point.loss < found[found.length - 1].loss) found.push(point);
  return found;
}

/** The range of an axis. */
interface Axis {
  readonly from: number;
  readonly to: number;
}

/** Returns the ranges of the axes: bytes from 0 to the full cache's, losses from 0, or the least below it, to the largest. */
export const axesOf = (points: readonly Point[], full: number): { readonly bytes: Axis; readonly loss: Axis } => ({
  bytes: { from: 0, to: Math.max(1, full, ...points.map(({ bytes }) => bytes)) },
  loss: {
    from: Math.min(0, ...points.map(({ loss }) => loss)),
    to: Math.max(0.01, ...points.map(({ loss }) => loss)),
  },
});

/** Says of which texts the numbers of a picture are, and what it shows where all lose alike. */
export function pictureTexts(choice: Pick<Choice, 'rows'>): string {
  const { title, points } = shownIn(choice),
    confirmed = points.filter(({ row }) => row.confirmed).length,
    of =
      confirmed === points.length
        ? 'Measured on texts that took no part in the choice'
        : confirmed === 0
          ? 'Measured on the texts that chose'
          : `${confirmed} of the ${points.length} candidates are shown as measured on texts that took no part in the choice, the others on the texts that chose`;
  return `${of}, as in the table.${title === 'KL' ? ' All lose alike: up goes the divergence (KL), in nats a token.' : ''}`;
}

/** Explains the marks of a picture, and of which texts it is. */
export const pictureLegend = (choice: Pick<Choice, 'rows'>): string =>
  `# the choice, or what came nearest, o the frontier (nothing loses less in as few bytes), . another candidate, : several, F the full cache. ${pictureTexts(choice)}`;
const HEIGHT = 12;
/** The marks, the weakest first: of several points in a place the strongest shows. */
const MARKS = [' ', '.', ':', 'F', 'o', '#'];

/**
 * Draws the losses of a choice against bytes with characters, a mark a candidate, least loss at the bottom; readable
 * without colours. Empty if none was asked.
 *
 * @param chosen the row of the choice
 * @param width of a line in characters
 */
export function lossPicture(
  choice: Pick<Choice, 'rows' | 'full'>,
  { chosen, width }: { readonly chosen?: ChoiceRow | undefined; readonly width: number },
): string {
  const { title, points, labelOf } = shownIn(choice),
    full = choice.full.bytes;
  if (points.length === 0) return '';
  const { bytes, loss } = axesOf(points, full),
    labels = new Map([
      [0, labelOf(loss.to)],
      [Math.floor((HEIGHT - 1) / 2), labelOf((loss.to + loss.from) / 2)],
      [HEIGHT - 1, labelOf(loss.from)],
    ]),
    left = Math.max(...[...labels.values()].map(({ length }) => length)),
    columns = Math.max(8, Math.min(width, 100) - left - 2),
    rows = Array.from({ length: HEIGHT }, () => new Array<string>(columns).fill(' ')),
    best = new Set<Point>(frontierOf(points));
  const put = (point: Point, mark: string): void => {
    const row = rows[HEIGHT - 1 - placeOf(point.loss, loss, HEIGHT)],
      at = placeOf(point.bytes, bytes, columns),
      shown = mark === '.' && row[at] === '.' ? ':' : mark;
    if (MARKS.indexOf(shown) > MARKS.indexOf(row[at])) row[at] = shown;
  };
  put({ bytes: full, loss: 0 }, 'F');
  for (const point of points) put(point, point.row === chosen ? '#' : best.has(point) ? 'o' : '.');
  return [
    title,
    ...rows.map((row, r) => `${(labels.get(r) ?? '').padStart(left)} |${row.join('')}`.trimEnd()),
    `${' '.repeat(left)} +${'-'.repeat(columns)}`,
    `${' '.repeat(left + 2)}${spread(['0', 'bytes of the cache', bytesText(bytes.to)], columns)}`,
  ].join('\n');
}

/** Returns the cell of a value on an axis with this number of cells. */
const placeOf = (value: number, { from, to }: Axis, cells: number): number =>
  Math.min(cells - 1, Math.max(0, Math.round(((value - from) / (to - from)) * (cells - 1))));

/** Spreads three words over a line; the middle one goes where there is no room. */
function spread([first, middle, last]: readonly [string, string, string], width: number): string {
  const gap = width - first.length - middle.length - last.length;
  return gap < 2
    ? `${first}${' '.repeat(Math.max(1, width - first.length - last.length))}${last}`
    : `${first}${' '.repeat(Math.floor(gap / 2))}${middle}${' '.repeat(Math.ceil(gap / 2))}${last}`;
}
