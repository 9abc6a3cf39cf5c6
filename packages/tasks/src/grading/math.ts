/** The number after the last "####", else the last number; undefined without one. 1,234.50 is 1234.5. */
export function lastNumber(text: string): number | undefined {
  const marked = text.lastIndexOf('####'),
    from = marked < 0 ? text : text.slice(marked + 4),
    found = from.match(/-?\$?\d[\d,]*(?:\.\d+)?/g);
  const number = marked < 0 ? found?.at(-1) : found?.[0];
  return number === undefined ? undefined : Number(number.replace(/[$,]/g, ''));
}

/** What stands between the balanced braces of the last `\boxed{`; undefined where none is closed. */
export function boxed(text: string): string | undefined {
  const open = text.lastIndexOf('\\boxed{');
  if (open < 0) return undefined;
  const start = open + '\\boxed{'.length;
  let depth = 1;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '{') depth++;
    else if (text[at] === '}' && --depth === 0) return text.slice(start, at);
  }
  return undefined;
}

/**
 * Whether two closed-form answers are written the same, but for spaces, sizes of brackets, kinds of fractions, units in
 * text, a full stop and commas in numbers; or are the same number. No algebra: x + 1 is not 1 + x.
 */
export function sameMath(a: string, b: string): boolean {
  const [x, y] = [plainMath(a), plainMath(b)];
  return x === y || (numberOf(x) !== undefined && numberOf(x) === numberOf(y));
}

const plainMath = (text: string): string =>
  text
    .replace(/\\(?:left|right|displaystyle)(?![a-zA-Z])|\\[!,;: ]|\^\{?\\circ\}?|\\%|%|\\?\$/g, '')
    .replace(/\\[dt]frac(?![a-zA-Z])/g, '\\frac')
    .replace(/\\frac(\d)(\d)/g, '\\frac{$1}{$2}')
    .replace(/\\text(?:bf|rm|it)?\{([^{}]*)\}/g, (whole: string, words: string, at: number) =>
      at === 0 && whole.length === text.trim().length ? words : '',
    )
    .replace(/\s+/g, '')
    .replace(/(\d),(?=\d{3}(?!\d))/g, '$1')
    .replace(/\.$/, '');

/** Of a number or a fraction of two. */
function numberOf(text: string): number | undefined {
  const [, sign, over, under] =
    /^(-?)\\frac\{(-?\d+)\}\{(-?\d+)\}$/.exec(text) ?? /^(-?)(\d+)\/(\d+)$/.exec(text) ?? [];
  if (over !== undefined) return ((sign === '-' ? -1 : 1) * Number(over)) / Number(under);
  return /^-?(?:\d+(?:\.\d*)?|\.\d+)$/.test(text) ? Number(text) : undefined;
}
