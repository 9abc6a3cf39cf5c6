import type { Frame } from './messages.ts';

/** A place in the cache: a position, and which pair of layer and KV head. */
export interface CachePosition {
  readonly position: number;
  readonly row: number;
}

/** Where cells are drawn: lines of `perLine` positions, each with all rows below one another. */
export interface HeatMapLayout {
  readonly positions: number;
  readonly rows: number;
  readonly perLine: number;
  readonly lines: number;
  /**
   * Width and height of a cell, space to the left of each line for its labels, above its rows for marks, and below
   * them, CSS pixels.
   */
  readonly cell: number;
  readonly tall: number;
  readonly left: number;
  readonly top: number;
  readonly bottom: number;
  readonly width: number;
  readonly height: number;
}

const LEFT = 22,
  TOP = 5,
  BOTTOM = 9,
  /** Pixels of all rows of a line, while each has one. */
  MOST = 320;

/** Breaks so many positions into lines that fit the width. */
export function layoutOf(width: number, positions: number, rows: number): HeatMapLayout {
  const cell = width < 420 ? 4 : 5,
    perLine = Math.max(8, Math.floor((width - LEFT) / cell)),
    lines = Math.max(1, Math.ceil(positions / perLine)),
    tall = Math.max(1, Math.min(cell, Math.floor(MOST / rows))); // a large model has hundreds of rows
  return {
    positions,
    rows,
    perLine,
    lines,
    cell,
    tall,
    left: LEFT,
    top: TOP,
    bottom: BOTTOM,
    width: LEFT + perLine * cell,
    height: lines * (TOP + rows * tall + BOTTOM),
  };
}

/** Upper left corner of a cell. */
export function cornerOf(
  { perLine, cell, tall, left, top, bottom, rows }: HeatMapLayout,
  { position, row }: CachePosition,
): readonly [x: number, y: number] {
  return [
    left + (position % perLine) * cell,
    Math.floor(position / perLine) * (top + rows * tall + bottom) + top + row * tall,
  ];
}

/** The cell at a point, if there is one. */
export function placeAt(
  { perLine, cell, tall, left, top, bottom, rows, positions }: HeatMapLayout,
  x: number,
  y: number,
): CachePosition | undefined {
  const step = top + rows * tall + bottom,
    line = Math.floor(y / step),
    column = Math.floor((x - left) / cell),
    row = Math.floor((y - line * step - top) / tall),
    position = line * perLine + column;
  return column >= 0 && column < perLine && row >= 0 && row < rows && line >= 0 && position < positions
    ? { position, row }
    : undefined;
}

/** Where a key leads: a token or a row on, a line on, the first or the last. Undefined for other keys. */
export function moveBy(
  { positions, rows, perLine }: HeatMapLayout,
  { position, row }: CachePosition,
  key: string,
): CachePosition | undefined {
  const to = (at: number, inRow = row): CachePosition => ({
    position: Math.min(Math.max(at, 0), positions - 1),
    row: Math.min(Math.max(inRow, 0), rows - 1),
  });
  switch (key) {
    case 'ArrowLeft':
      return to(position - 1);
    case 'ArrowRight':
      return to(position + 1);
    case 'ArrowUp':
      return to(position, row - 1);
    case 'ArrowDown':
      return to(position, row + 1);
    case 'PageUp':
      return to(position - perLine);
    case 'PageDown':
      return to(position + perLine);
    case 'Home':
      return to(0);
    case 'End':
      return to(positions - 1);
    default:
      return undefined;
  }
}

const rowsOf = ({ kept, length }: Frame): number => kept.length / length;

/** Whether the cache holds a position in a row; undefined where it was not fed yet. */
export const holds = ({ kept, length }: Frame, { position, row }: CachePosition): boolean | undefined =>
  position < length ? kept[row * length + position] === 1 : undefined;

/** In how many rows each position is held. */
export function countsOf(frame: Frame): Uint16Array {
  const counts = new Uint16Array(frame.length);
  for (const [i, kept] of frame.kept.entries()) counts[i % frame.length] += kept;
  return counts;
}

/** Slots that two caches share, and that only one of them has. */
export function compare(a: Frame, b: Frame): { readonly both: number; readonly onlyA: number; readonly onlyB: number } {
  const rows = Math.max(rowsOf(a), rowsOf(b));
  let both = 0,
    onlyA = 0,
    onlyB = 0;
  for (let row = 0; row < rows; row++)
    for (let position = 0; position < Math.max(a.length, b.length); position++) {
      const inA = holds(a, { position, row }) === true,
        inB = holds(b, { position, row }) === true;
      if (inA && inB) both++;
      else if (inA) onlyA++;
      else if (inB) onlyB++;
    }
  return { both, onlyA, onlyB };
}
