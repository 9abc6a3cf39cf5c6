import type { Random } from '@kv/tasks';
import { filled } from './values.ts';
import type { Form } from './patterns.ts';

/**
 * A line of a document: where it starts, where the sign before its value ends, and where it ends itself, in characters.
 */
export interface Line {
  readonly kind: 'anchor' | 'beside';
  readonly pattern: string;
  readonly form: string;
  readonly start: number;
  readonly sign: number;
  readonly end: number;
}
/** A text with its lines; the rest is prose or text around lines. */
export interface Document {
  readonly text: string;
  readonly lines: readonly Line[];
}
/** The material of documents. */
export interface Matter {
  readonly sentences: readonly string[];
  readonly services: readonly string[];
  readonly lines: (form: Form) => { readonly anchors: readonly string[]; readonly beside: readonly string[] };
}

const MARK = '¦';

/**
 * Makes a document of one form: these anchors and at least as many other lines, in random order, with prose before and
 * after.
 */
function documentOf(
  form: Form,
  anchors: readonly string[],
  { sentences, services, lines }: Matter,
  r: Random,
): Document {
  const beside = Array.from({ length: Math.max(2, anchors.length) }, () => r.pick(lines(form).beside)),
    found: Line[] = [];
  const prose = (most: number): string => Array.from({ length: r.below(most + 1) }, () => r.pick(sentences)).join(' ');
  const order = r.sample(
    [
      ...anchors.map((pattern) => ({ kind: 'anchor' as const, pattern })),
      ...beside.map((pattern) => ({ kind: 'beside' as const, pattern })),
    ],
    anchors.length + beside.length,
  );
  let text = prose(1);
  if (text !== '') text += form.name === 'prose' ? ' ' : '\n\n';
  text += filled(form.open, services, r);
  for (const [i, { kind, pattern }] of order.entries()) {
    if (i > 0) text += form.join;
    if (form.name === 'prose' && r.below(2)) text += `${r.pick(sentences)} `;
    const said = filled(pattern, services, r),
      cut = said.indexOf(MARK),
      start = text.length;
    text += said.replace(MARK, '');
    found.push({ kind, pattern, form: form.name, start, sign: start + cut, end: text.length });
  }
  return { text: text + form.close + prose(1), lines: found };
}

/** Makes documents in which every anchor of these forms occurs `times` times, two to four of them per document. */
export function documents(forms: readonly Form[], times: number, matter: Matter, r: Random): readonly Document[] {
  const all = forms.flatMap((form) => {
    let rest = matter.lines(form).anchors.flatMap((pattern) => new Array<string>(times).fill(pattern));
    rest = r.sample(rest, rest.length);
    const out: Document[] = [];
    while (rest.length > 0) out.push(documentOf(form, rest.splice(0, 2 + r.below(3)), matter, r));
    return out;
  });
  return r.sample(all, all.length);
}
