import type { MemoryUse } from './messages.ts';

/** Bytes of keys and values over the tokens of a conversation, drawn as a line. */
export interface MemoryChart {
  readonly root: SVGSVGElement;
  add(held: MemoryUse): void;
  /** The right and upper ends of the axes. */
  scale(tokens: number, bytes: number): void;
  /** Describes what is drawn to those who do not see it. */
  describe(words: string): void;
  clear(): void;
}

const WIDTH = 200,
  HEIGHT = 60;

const svg = <K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
): SVGElementTagNameMap[K] => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

export function memoryChart(): MemoryChart {
  const area = svg('path', { class: 'area' }),
    line = svg('path', { class: 'line' }),
    root = svg('svg', {
      ...{ class: 'chart', role: 'img', 'aria-label': 'Memory: nothing is held yet' },
      ...{ viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none' },
    });
  root.append(area, line);
  let points: MemoryUse[] = [],
    most = { tokens: 1, bytes: 1 };
  const draw = (): void => {
    const at = ({ tokens, bytes }: Pick<MemoryUse, 'tokens' | 'bytes'>): string =>
      `${((tokens / most.tokens) * WIDTH).toFixed(1)} ${(HEIGHT - 1 - (bytes / most.bytes) * (HEIGHT - 2)).toFixed(1)}`;
    const way = points.map(at).join('L'),
      end = points.at(-1);
    line.setAttribute('d', end ? `M0 ${HEIGHT - 1}L${way}` : '');
    area.setAttribute('d', end ? `M0 ${HEIGHT}L${way}L${at({ ...end, bytes: 0 })}Z` : '');
  };
  return {
    root,
    add(held) {
      points.push(held);
      draw();
    },
    scale(tokens, bytes) {
      if (tokens === most.tokens && bytes === most.bytes) return;
      most = { tokens, bytes };
      draw();
    },
    describe(words) {
      root.setAttribute('aria-label', words);
    },
    clear() {
      points = [];
      draw();
    },
  };
}
