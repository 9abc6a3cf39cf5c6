/**
 * Returns the number after the last "####", else the last number; undefined if there is none. 1,234.50 is 1234.5; a
 * hyphen is a minus where no letter or digit stands before it: 15 in 10-15.
 */
export function lastNumber(text: string): number | undefined {
  const marked = text.lastIndexOf('####'),
    from = marked < 0 ? text : text.slice(marked + 4),
    found = from
      .replaceAll('−', '-')
      .match(/(?:(?<![\p{L}\p{N})])-)?\$?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\d)\.\d+)/gu);
  const number = marked < 0 ? found?.at(-1) : found?.[0];
  return number === undefined ? undefined : Number(number.replace(/[$,]/g, ''));
}
