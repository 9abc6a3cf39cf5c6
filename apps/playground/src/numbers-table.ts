import { letterOf } from './choice.ts';
import { make } from './element.ts';
import { compare } from './heat-map.ts';
import type { Frame, Side } from './messages.ts';
import { bytesText, countText, speedText } from './words.ts';

/** A table of what each side's cache holds and how fast it is, and of how much the caches have in common. */
export interface NumbersTable {
  start(sides: number): void;
  show(side: Side, frame: Frame): void;
  end(side: Side, finish: string): void;
  /** Compares the caches. @param frames undefined where a side has none yet */
  compare(frames: readonly (Frame | undefined)[]): void;
}

const COLUMNS = ['Cache', 'Peak', 'Slots per head', 'Prefill', 'Decoding', 'Ended'] as const;
const FINISHES: Readonly<Record<string, string>> = {
  length: 'at the limit of new tokens',
  stop: 'at a full stop or line break',
  eos: 'by itself',
  context: "at the model's context",
  aborted: 'stopped',
};

export function numbersTable(root: HTMLElement): NumbersTable {
  const overlap = make('div', { id: 'overlap' });
  let cells: readonly (readonly HTMLTableCellElement[])[] = [];
  return {
    start(sides) {
      cells = Array.from({ length: sides }, () => COLUMNS.map(() => make('td', {}, '–')));
      overlap.replaceChildren();
      const table = make(
        'table',
        {},
        make('thead', {}, make('tr', {}, make('td'), ...COLUMNS.map((name) => make('th', { scope: 'col' }, name)))),
        make(
          'tbody',
          {},
          ...cells.map((row, side) => make('tr', {}, make('th', { scope: 'row' }, letterOf(side)), ...row)),
        ),
      );
      root.replaceChildren(table, overlap);
    },
    show(side, { bytes, peak, slots, prefillSpeed, decodeSpeed }) {
      for (const [i, words] of [
        bytesText(bytes),
        bytesText(peak),
        countText(slots),
        speedText(prefillSpeed),
        speedText(decodeSpeed),
      ].entries())
        cells[side][i].textContent = words;
    },
    end(side, finish) {
      cells[side][COLUMNS.indexOf('Ended')].textContent = FINISHES[finish] ?? finish;
    },
    compare: (frames) => overlap.replaceChildren(...overlapOf(frames)),
  };
}

/** Describes the overlap of caches: a sentence for two, a table for more. */
function overlapOf(frames: readonly (Frame | undefined)[]): readonly HTMLElement[] {
  const share = (a: Frame, b: Frame): string => {
    const { both, onlyA, onlyB } = compare(a, b);
    return `${((100 * both) / (both + onlyA + onlyB)).toFixed(0)} %`;
  };
  const [a, b] = frames;
  if (frames.length === 2) {
    if (!a || !b) return [];
    const { both, onlyA, onlyB } = compare(a, b);
    return [make('p', {}, `In both caches: ${both} slots (${share(a, b)}); only A: ${onlyA}; only B: ${onlyB}.`)];
  }
  const row = (one: Frame | undefined, i: number): HTMLElement =>
    make(
      'tr',
      {},
      make('th', { scope: 'row' }, letterOf(i)),
      ...frames.map((other, j) => make('td', {}, j >= i || !one || !other ? '' : share(one, other))),
    );
  return [
    make(
      'table',
      {},
      make('caption', {}, 'Slots in both caches, of those in either'),
      make('thead', {}, make('tr', {}, make('td'), ...frames.map((_, i) => make('th', { scope: 'col' }, letterOf(i))))),
      make('tbody', {}, ...frames.map(row)),
    ),
  ];
}
