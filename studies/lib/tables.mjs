import { wilson } from '@kv/tasks';

/** Returns the mean of a list, of a field of each where one is named. */
export const mean = (list, field) =>
  list.reduce((sum, one) => sum + Number(field === undefined ? one : one[field]), 0) / list.length;

/** Returns a share in percent. */
export const percent = (x, digits = 0) => (100 * x).toFixed(digits);

/** Returns how many of a list are true, with Wilson's 95 % interval; nothing for an empty list. */
export function share(list) {
  const hits = list.filter(Boolean).length,
    { low, high } = wilson(hits, list.length);
  return list.length === 0 ? '' : `${hits} of ${list.length} (${percent(low)}-${percent(high)} %)`;
}

/** Returns the line of a table in Markdown. */
export const tableLine = (cells) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;

/** Prints a table in Markdown and an empty line. */
export function print(head, rows) {
  console.log([head, head.map(() => '---'), ...rows].map(tableLine).join('\n'));
  console.log();
}
