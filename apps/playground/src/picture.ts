import { cornerOf, holds, layoutOf, type MapRow } from './heat-map.ts';
import type { Frame, PromptSummary } from './messages.ts';

/** One policy's cache at one token. */
export interface CachePicture {
  readonly title: string;
  readonly frame: Frame;
}

const WIDTH = 900,
  PAD = 16,
  HEAD = 44,
  COLORS = { paper: '#ffffff', ink: '#1b1f24', soft: '#59626e', empty: '#e8ecf0', kept: '#2f6fb8' },
  MARKS = { value: '#c2560c', asked: '#7a5ab5', new: '#1c7c54' };

const escaped = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replace(/[\0-\x08\x0b-\x1f\x7f\ufffe\uffff]|\p{Surrogate}/gu, '�'); // XML does not allow these

/**
 * Draws cache maps below one another as a standalone SVG document: kept slots in blue, one row per pair of layer and KV
 * head.
 */
export function picture(
  sides: readonly CachePicture[],
  { valueTokens, offsets, questionFrom = Infinity }: PromptSummary,
  rowsOf: readonly MapRow[],
): string {
  const value = new Set(valueTokens),
    parts: string[] = [];
  let y = PAD;
  for (const { title, frame } of sides) {
    const rows = frame.kept.length / frame.length,
      positions = Math.max(frame.length, offsets.length),
      layout = layoutOf(WIDTH - 2 * PAD, positions, rows),
      { cell, tall, perLine } = layout;
    const at = (position: number, row: number): readonly [number, number] => {
      const [x, down] = cornerOf(layout, { position, row });
      return [PAD + x, y + HEAD + down];
    };
    const path = (of: (position: number, row: number) => boolean): string => {
      let drawn = '';
      for (let row = 0; row < rows; row++)
        for (let from = 0; from < positions; ) {
          let to = from;
          while (to < positions && of(to, row) && Math.floor(to / perLine) === Math.floor(from / perLine)) to++;
          if (to === from) from++;
          else {
            const [left, top] = at(from, row),
              deep = tall > 2 && rowsOf[row].last ? tall - 1 : tall;
            drawn += `M${left} ${top}h${(to - from) * cell}v${deep}h-${(to - from) * cell}z`;
            from = to;
          }
        }
      return drawn;
    };
    const marks = (kind: keyof typeof MARKS, of: (position: number) => boolean): string =>
      Array.from({ length: positions }, (_, i) => i)
        .filter(of)
        .map((position) => {
          const [left, top] = at(position, 0);
          return `<rect x="${left}" y="${top - 4}" width="${cell}" height="3" fill="${MARKS[kind]}"/>`;
        })
        .join('');
    parts.push(
      `<text x="${PAD}" y="${y + 16}" font-weight="600">${escaped(title)}</text>`,
      `<text x="${PAD}" y="${y + 34}" fill="${COLORS.soft}">${frame.slots.toFixed(0)} slots a head of ${frame.length} tokens; answer: ${escaped(frame.answer.trim())}</text>`,
      `<path fill="${COLORS.empty}" d="${path((position, row) => holds(frame, { position, row }) !== true)}"/>`,
      `<path fill="${COLORS.kept}" d="${path((position, row) => holds(frame, { position, row }) === true)}"/>`,
      marks('value', (position) => value.has(position)),
      marks('asked', (position) => position >= questionFrom && position < offsets.length && !value.has(position)),
      marks('new', (position) => position >= offsets.length),
    );
    y += HEAD + layout.height + PAD;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y}" viewBox="0 0 ${WIDTH} ${y}" font-family="system-ui, sans-serif" font-size="13" fill="${COLORS.ink}"><title>What ${sides.length === 1 ? 'a policy keeps' : `${sides.length} policies keep`} of one prompt, one row a pair of layer and KV head</title><rect width="100%" height="100%" fill="${COLORS.paper}"/>${parts.join('')}</svg>\n`;
}
