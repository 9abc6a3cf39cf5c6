import type { Report } from '@kv/models';
import { colors as pc } from '../colors.ts';
import { fitColumns } from '../columns.ts';

/** Spans that have a row; those after them are counted. */
const ROWS = 20;
/** Characters of a span's text that are shown. */
const SHOWN = 32;

/**
 * Formats how much is held of every span of a text, a row each, after an empty line; nothing where the text has none.
 *
 * @param textOf returns the text of positions
 */
export function spanTable(
  spans: Report['spans'] = [],
  textOf: (from: number, to: number) => string,
  width: number,
): string {
  if (spans.length === 0) return '';
  const rows = spans.slice(0, ROWS).map(({ positions: [from, to], role = '', tokens, share }) => {
    const begins = textOf(from, Math.min(to, from + SHOWN))
      .replace(/\s+/g, ' ')
      .trim();
    return [
      `${from} to ${to - 1}`,
      String(tokens.fed),
      `${Math.round(100 * share)} %`,
      String(tokens.dropped),
      role,
      begins.length > SHOWN ? `${begins.slice(0, SHOWN - 1)}…` : begins,
    ];
  });
  const head = ['positions', 'tokens', 'held', 'gone', 'role', 'text'],
    more = spans.length - rows.length;
  return `\n${fitColumns([head.map(pc.dim), ...rows], new Set([1, 2, 3]), width)}\n${more > 0 ? `and ${more} spans more\n` : ''}`;
}
