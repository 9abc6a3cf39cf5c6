/**
 * Returns the number after the last "####", else the last number; undefined if there is none. 1,234.50 is 1234.5; a
 * hyphen is a minus where no letter or digit stands before it: 15 in 10-15.
 */
export function lastNumber(text: string): number | undefined {
  const marked = text.lastIndexOf('####'),
    stated = marked < 0 ? undefined : numbersOf(text.slice(marked + 4))[0],
    number = stated ?? numbersOf(text).at(-1);
  return number === undefined ? undefined : Number(number.replace(/[$,]/g, ''));
}

const numbersOf = (text: string): readonly string[] =>
  text
    .replaceAll('−', '-')
    .match(/(?:(?<![\p{L}\p{N}])-)?\$?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\d)\.\d+)/gu) ?? [];
