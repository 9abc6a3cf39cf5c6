import type { Frame } from './messages.ts';

/** A cell of the map: a position, and a row (layer and KV head). */
export interface CachePosition {
  readonly position: number;
  readonly row: number;
}

/** Layout of the cells: lines of `perLine` positions, each with all rows below one another. */
export interface HeatMapLayout {
  readonly positions: number;
  readonly rows: number;
  readonly perLine: number;
  readonly lines: number;
  /**
   * In CSS pixels: size of a cell, space left of each line for its labels, above its rows for marks, and below them.
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
  BOTTOM = 7,
  /** Sizes of a cell in pixels. */
  CELLS = [5, 4, 3, 2, 1],
  /** Maximum height of a line's rows in pixels, unless a row would get less than one. */
  MOST = 320;

/**
 * Breaks `positions` positions into lines that fit the width, with the largest cells that also fit the height; where
 * none do, with the smallest.
 */
export function layoutOf(width: number, positions: number, rows: number, height = Infinity): HeatMapLayout {
  const layouts = CELLS.map((cell) => withCells(cell, width, positions, rows, height)),
    size = ({ cell, tall }: HeatMapLayout): number => 100 * Math.min(cell, tall) + cell * tall;
  return (
    layouts.filter((each) => each.height <= height).toSorted((a, b) => size(b) - size(a))[0] ??
    layouts.toSorted((a, b) => a.height - b.height)[0]
  );
}

function withCells(cell: number, width: number, positions: number, rows: number, height: number): HeatMapLayout {
  const perLine = Math.max(8, Math.floor((width - LEFT) / cell)),
    lines = Math.max(1, Math.ceil(positions / perLine)),
    // a large model has hundreds of rows
    tall = Math.max(1, Math.floor(Math.min(5 * rows, MOST, height / lines - TOP - BOTTOM) / rows));
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

/** Returns the upper left corner of a cell. */
export function cornerOf(
  { perLine, cell, tall, left, top, bottom, rows }: HeatMapLayout,
  { position, row }: CachePosition,
): readonly [x: number, y: number] {
  return [
    left + (position % perLine) * cell,
    Math.floor(position / perLine) * (top + rows * tall + bottom) + top + row * tall,
  ];
}

/** Returns the cell at a point, if any. */
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

/** Returns the cell that a key moves to: by a token, row or line, or to the first or last. Undefined for other keys. */
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

/** The rows of a map: one for each KV head of each layer that keeps slots, in this order. */
export interface MapRow {
  readonly layer: number;
  readonly head: number;
  /** Whether it is the last of its layer. */
  readonly last: boolean;
}

/** Returns the rows of a map. @param heads KV heads of each layer */
export const mapRows = (heads: readonly number[]): readonly MapRow[] =>
  heads.flatMap((count, layer) =>
    Array.from({ length: count }, (_, head) => ({ layer, head, last: head === count - 1 })),
  );

const rowsOf = ({ kept, length }: Frame): number => kept.length / length;

/** Whether the cache holds a position in a row; undefined if it has not been fed yet. */
export const holds = ({ kept, length }: Frame, { position, row }: CachePosition): boolean | undefined =>
  position < length ? kept[row * length + position] === 1 : undefined;

/** Returns the level at which a row of the cache holds a position, if slots have levels of their own. */
export const levelAt = ({ levels, length }: Frame, { position, row }: CachePosition): number | undefined =>
  levels?.[row * length + position];

/** Counts the rows that hold each position. */
export function countsOf(frame: Frame): Uint16Array {
  const counts = new Uint16Array(frame.length);
  for (const [i, kept] of frame.kept.entries()) counts[i % frame.length] += kept;
  return counts;
}

/** Counts the slots that both caches hold, and those that only one holds. */
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
