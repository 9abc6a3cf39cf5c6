const UNICODE: Readonly<Record<string, string>> = {
  '−': '-',
  '–': '-',
  '×': '\\times ',
  '·': '\\cdot ',
  '÷': '\\div ',
  π: '\\pi ',
  '√': '\\sqrt ',
  '∞': '\\infty ',
  '≤': '\\le ',
  '≥': '\\ge ',
  '≠': '\\ne ',
  '∪': '\\cup ',
  '±': '\\pm ',
  '²': '^2',
  '³': '^3',
};
/** Units that may follow a number without \text. */
const UNITS =
  /(?<=[\d})]) (?:square |cubic |sq\.? )?(?:units?|[cmk]?m|in|inch(?:es)?|feet|foot|ft|yards?|miles?|degrees?|dollars?|cents?|hours?|minutes?|seconds?|days?|weeks?|months?|years?|grams?|kg|liters?|people|points?)(?: ?\^ ?\{?[23]\}?)?$/;

/** Words between the items of a list. */
const JOINS = /^(?:and|or|,)$/;

/**
 * Removes everything from an answer that affects only its looks or its unit: sizes of brackets, kinds of fractions,
 * spaces, dollars, percent and degree signs, `{,}` in numbers, a full stop. `\text` is unwrapped if it is the whole
 * answer, joins a list as words, and is removed as a unit elsewhere.
 */
export function plainLatex(answer: string): string {
  const text = answer
    .replace(/[−–×·÷π√∞≤≥≠∪±²³]/g, (sign) => UNICODE[sign])
    .replace(
      /\\\\|\\(?:left|right) ?\.|\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle|limits)(?![a-zA-Z])/g,
      (found) => (found === '\\\\' ? found : ' '),
    )
    .replace(/\\\\|\{,\}(?=\d{3}(?!\d))|\\[!,;: ]|\\q?quad(?![a-zA-Z])|~/g, (found, at: number, whole: string) => {
      if (found === '\\\\') return found;
      if (found === '{,}' || found === '\\!') return '';
      return found === '\\,' && /\d$/.test(whole.slice(at - 1, at)) && /^\d{3}(?!\d)/.test(whole.slice(at + 2, at + 6))
        ? ''
        : ' ';
    })
    .replace(/\\\\|\^ ?\{? ?\\circ ?\}?|\\degree(?![a-zA-Z])|[°%$]|\\[%$]/g, (found) => (found === '\\\\' ? found : ''))
    .replace(/\\[dtc]frac(?![a-zA-Z])/g, '\\frac')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/\.$/, '')
    .trim();
  return unwrapped(text).replace(UNITS, '').trim();
}

const WORDS =
  /\\(?:text(?:bf|rm|it|normal)?|mathrm|mathbf|mbox|operatorname) ?\{([^{}]*)\}(?: ?\^ ?(?:\{[^{}]*\}|\d))?/g;

function unwrapped(text: string): string {
  return text.replace(WORDS, (whole: string, words: string, at: number) => {
    if (whole.length === text.length) return words.trim();
    if (JOINS.test(words.trim())) return ',';
    // a letter is the same in every font
    if (/^ ?\w$/.test(words)) return words;
    return at === 0 ? `${words} ` : '';
  });
}
