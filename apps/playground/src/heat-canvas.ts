import { LEVELS } from '@kv/core';
import {
  cornerOf,
  holds,
  layoutOf,
  levelAt,
  moveBy,
  placeAt,
  type HeatMapLayout,
  type CachePosition,
  type MapRow,
} from './heat-map.ts';
import type { Frame, PromptSummary } from './messages.ts';

/** Input of a heat map. */
export interface HeatMapInput {
  readonly frame: Frame;
  readonly prompt: PromptSummary;
  readonly rows: readonly MapRow[];
  /** The cell under the pointer. */
  readonly place: CachePosition | undefined;
}

const INK = ['--paper', '--ink', '--soft', '--empty', '--kept', '--value', '--asked', '--new'] as const;
type Colors = Readonly<Record<(typeof INK)[number], string>>;

/**
 * Creates a canvas of all rows and positions that reports the cell under the pointer or keyboard cursor, and clicks.
 */
export function heatCanvas(
  canvas: HTMLCanvasElement,
  point: (place: CachePosition) => void,
  ask: (place: CachePosition, box: DOMRect) => void,
): { draw(shown: HeatMapInput): void } {
  let layout: HeatMapLayout | undefined, last: HeatMapInput | undefined;
  const draw = (shown: HeatMapInput): void => {
    last = shown;
    const frame = canvas.parentElement!, // the panel holds it
      scale = devicePixelRatio,
      next = layoutOf(
        frame.clientWidth - 6, // room for the outline of the focus
        Math.max(shown.frame.length, shown.prompt.offsets.length),
        shown.rows.length,
        Number.parseFloat(getComputedStyle(frame).maxHeight) - 6,
      );
    layout = next;
    canvas.width = Math.round(next.width * scale);
    canvas.height = Math.round(next.height * scale);
    canvas.style.width = `${next.width}px`;
    canvas.style.height = `${next.height}px`;
    const context = canvas.getContext('2d')!; // no other context type is requested of it
    context.setTransform(scale, 0, 0, scale, 0, 0);
    paint(context, next, shown, colorsOf(canvas));
  };
  const again = (): void => {
    if (last) draw(last);
  };
  new ResizeObserver(again).observe(canvas.parentElement!); // the panel holds it
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
  const at =
    (told: (place: CachePosition) => void) =>
    ({ offsetX, offsetY }: MouseEvent): void => {
      const place = layout && placeAt(layout, offsetX, offsetY);
      if (place) told(place);
    };
  const askAt = (place: CachePosition): void => {
    if (!layout) return;
    const { x, y } = canvas.getBoundingClientRect(),
      [left, top] = cornerOf(layout, place);
    ask(place, new DOMRect(x + left, y + top, layout.cell, layout.tall));
  };
  canvas.addEventListener('pointermove', at(point));
  canvas.addEventListener('pointerdown', at(point));
  canvas.addEventListener('click', at(askAt));
  canvas.addEventListener('focus', () => {
    if (last && !last.place) point({ position: 0, row: 0 });
  });
  canvas.addEventListener('keydown', (event) => {
    if (last?.place && (event.key === 'Enter' || event.key === ' ')) {
      event.preventDefault();
      askAt(last.place);
    }
    const place = layout && last?.place && moveBy(layout, last.place, event.key);
    if (!place) return;
    event.preventDefault();
    point(place);
  });
  return { draw };
}

function colorsOf(canvas: HTMLCanvasElement): Colors {
  const style = getComputedStyle(canvas);
  return Object.fromEntries(INK.map((name) => [name, style.getPropertyValue(name)])) as Colors;
}

function paint(
  context: CanvasRenderingContext2D,
  layout: HeatMapLayout,
  { frame, prompt, rows: heads, place }: HeatMapInput,
  colors: Colors,
): void {
  const { rows, cell, tall, left, perLine, lines, positions, width, height } = layout;
  context.fillStyle = colors['--paper'];
  context.fillRect(0, 0, width, height);
  const value = new Set(prompt.valueTokens),
    { length: prompted } = prompt.offsets;
  for (let position = 0; position < positions; position++) {
    const [x, y] = cornerOf(layout, { position, row: 0 });
    for (let row = 0; row < rows; row++) {
      // a fine line between layers
      const high = tall - (tall > 2 && heads[row].last ? 1 : 0),
        fill = (color: keyof Colors): void => {
          context.fillStyle = colors[color];
          context.fillRect(x, y + row * tall, cell, high);
        };
      if (!holds(frame, { position, row })) {
        fill('--empty');
        continue;
      }
      const level = levelAt(frame, { position, row });
      if (level !== undefined) {
        // the coarser, the paler
        fill('--empty');
        context.globalAlpha = 1 - (0.65 * level) / (LEVELS.length - 1);
      }
      fill('--kept');
      context.globalAlpha = 1;
    }
    const mark = value.has(position)
      ? '--value'
      : position >= prompted
        ? '--new'
        : position >= (prompt.questionFrom ?? Infinity)
          ? '--asked'
          : undefined;
    if (mark === undefined) continue;
    context.fillStyle = colors[mark];
    context.fillRect(x, y - 4, cell, 3);
  }
  context.strokeStyle = colors['--value'];
  context.lineWidth = 1.5;
  for (const [from, to] of runsOf(prompt.valueTokens, perLine)) {
    const [x, y] = cornerOf(layout, { position: from, row: 0 });
    context.strokeRect(x - 1, y - 2, (to - from) * cell + 2, rows * tall + 3);
  }
  context.fillStyle = colors['--soft'];
  context.font = '9px system-ui, sans-serif';
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (let line = 0; line < lines; line++) {
    let free = -Infinity; // where the last number ends
    for (const [row, { layer, head }] of heads.entries()) {
      const middle = cornerOf(layout, { position: line * perLine, row })[1] + tall / 2;
      if (head > 0 || middle < free) continue;
      context.fillText(String(layer), left - 5, middle);
      free = middle + 11;
    }
  }
  if (place && place.position < positions) outline(context, layout, place, colors['--ink']);
}

/** Returns the runs of consecutive positions, from and to, that lie in one line. */
function runsOf(positions: readonly number[], perLine: number): readonly (readonly [from: number, to: number])[] {
  const runs: [number, number][] = [];
  for (const position of positions) {
    const last = runs.at(-1);
    if (last?.[1] === position && position % perLine > 0) last[1]++;
    else runs.push([position, position + 1]);
  }
  return runs;
}

/** A frame around a token's column, and a heavier one around the cell. */
function outline(
  context: CanvasRenderingContext2D,
  layout: HeatMapLayout,
  { position, row }: CachePosition,
  color: string,
): void {
  const { cell, tall, rows } = layout,
    [x, top] = cornerOf(layout, { position, row: 0 }),
    [, y] = cornerOf(layout, { position, row });
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.strokeRect(x - 0.5, top - 0.5, cell + 1, rows * tall + 1);
  context.lineWidth = 2;
  context.strokeRect(x - 1, y - 1, cell + 2, tall + 2);
}
