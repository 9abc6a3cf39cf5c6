/** Returns the number after the last "####", else the last number; undefined if there is none. 1,234.50 is 1234.5. */
export function lastNumber(text: string): number | undefined {
  const marked = text.lastIndexOf('####'),
    from = marked < 0 ? text : text.slice(marked + 4),
    found = from.match(/-?\$?\d[\d,]*(?:\.\d+)?/g);
  const number = marked < 0 ? found?.at(-1) : found?.[0];
  return number === undefined ? undefined : Number(number.replace(/[$,]/g, ''));
}
