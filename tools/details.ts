/** Prints what `details` finds in labelled texts: see `tools/details.mjs`, which names the folder and the novel. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { detailsOf, semantic, regex, valueAfter } from '@kv/scorers-sponsorship';
import type { Detector, Extent } from '@kv/scorers-sponsorship';
import { random, wilson } from '@kv/tasks';
import type { Random } from '@kv/tasks';

type Mark = 'value' | 'either';
interface Snippet {
  readonly kind: string;
  readonly text: string;
  readonly marks: readonly { readonly mark: Mark; readonly at: Extent }[];
}

const DIGITS = '0123456789',
  CAPITALS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
  LETTERS = CAPITALS.toLowerCase() + CAPITALS,
  ALPHABETS: Readonly<Record<string, string>> = {
    d: DIGITS,
    h: '0123456789abcdef',
    a: LETTERS + DIGITS,
    X: CAPITALS + DIGITS,
    b: `${LETTERS + DIGITS}+/`,
    p: `${LETTERS + DIGITS}!#$%*+-.@_^~`,
  };
const run = (r: Random, of: string, length: number): string =>
  Array.from({ length }, () => of[r.below(of.length)]).join('');
/** Returns a random text of a placeholder; of mixed letters and digits always one of each. */
function filled(r: Random, name: string): string {
  if (name === 'u') return [8, 4, 4, 4, 12].map((n) => run(r, ALPHABETS['h'], n)).join('-');
  if (name === 'jwt')
    return `eyJ${run(r, ALPHABETS['a'], 33)}.eyJ${run(r, ALPHABETS['a'], 60)}.${run(r, ALPHABETS['a'], 43)}`;
  const of = ALPHABETS[name[0]],
    length = Number(name.slice(1));
  for (;;) {
    const text = run(r, of, length);
    if (name[0] === 'd' || (/\d/.test(text) && /[a-z]/i.test(text) && /\w/.test(text[0]) && /\w/.test(text.at(-1)!)))
      return text;
  }
}

/** Reads labelled snippets: `## kind`, then lines with `[[value]]` and `((either))`. */
export function readSnippets(file: string, seed: string): readonly Snippet[] {
  return file
    .split(/^## /m)
    .slice(1)
    .map((part, i) => {
      const kind = part.slice(0, part.indexOf('\n')),
        body = part.slice(kind.length + 1).trimEnd(),
        r = random(`${seed} ${i}`),
        marks: { mark: Mark; at: Extent }[] = [];
      let text = '';
      for (const piece of body.split(/(\[\[.*?\]\](?!\])|\(\(.*?\)\))/)) {
        const [, value, either] = /^(?:\[\[(.*)\]\]|\(\((.*)\)\))$/.exec(piece) ?? [],
          marked = value ?? either,
          said = (marked ?? piece).replace(/\{(u|jwt|[dhaXbp]\d+)\}/g, (_, name: string) => filled(r, name));
        if (marked !== undefined)
          marks.push({ mark: value === undefined ? 'either' : 'value', at: [text.length, text.length + said.length] });
        text += said;
      }
      return { kind, text, marks };
    });
}

const FINDERS = {
  details: (text: string): readonly Extent[] => detailsOf(tokensOf(text)).map(({ value }) => value),
  regex: (text: string): readonly Extent[] => byAnchors(regex(), text),
  semantic: (text: string): readonly Extent[] => byAnchors(semantic(), text),
};
/** One token a character: values begin and end where they do in the text. */
const tokensOf = (text: string) => ({
  text,
  ids: Array.from(text, (_, i) => i),
  offsets: Array.from({ length: text.length }, (_, i) => [i, i + 1] as const),
});
const byAnchors = (detector: Detector, text: string): readonly Extent[] =>
  detector
    .run(tokensOf(text))
    .map((one) =>
      typeof one === 'number' ? valueAfter(text, one + 1) : (one.value ?? valueAfter(text, one.position + 1)),
    )
    .filter(([from, to]) => to > from);

const meets = ([a, b]: Extent, [c, d]: Extent): boolean => a < d && c < b;
const holds = ([a, b]: Extent, [c, d]: Extent): boolean => a <= c && d <= b;
const share = (hits: number, of: number): string => {
  if (of === 0) return '-';
  const { low, high } = wilson(hits, of);
  return `${(hits / of).toFixed(3)} (${low.toFixed(3)}-${high.toFixed(3)}), ${hits} of ${of}`;
};

/** One finding of CredSweeper, as its tests label it. */
interface Labelled {
  readonly rule: string;
  readonly line_data_list: readonly {
    readonly path: string;
    readonly line: string;
    readonly value: string;
    readonly info: string;
  }[];
}
/**
 * Prints the recall of secrets that others labelled: the samples of Samsung's CredSweeper (MIT), which are not part of
 * this repository. Lists of lines that are not in a text file as they stand (archives, documents) are left out.
 */
function outsideRecall(root: string, half?: string): void {
  const all = JSON.parse(readFileSync(join(root, 'tests/data/output.json'), 'utf8')) as readonly Labelled[],
    byRule = new Map<string, { hits: number; of: number }>(),
    texts = new Map<string, { readonly text: string; readonly found: readonly Extent[] }>();
  let left = 0;
  for (const { rule, line_data_list: lines } of all)
    for (const { path, line, value } of lines) {
      if (half !== undefined && random(path).below(2) !== Number(half)) continue;
      const file = join(root, path),
        text = texts.get(path)?.text ?? (existsSync(file) ? readFileSync(file, 'utf8') : ''),
        at = text.indexOf(line),
        inLine = line.indexOf(value);
      if (at < 0 || inLine < 0 || line === '') {
        left++;
        continue;
      }
      const found = texts.get(path)?.found ?? FINDERS.details(text);
      texts.set(path, { text, found });
      const own: Extent = [at + inLine, at + inLine + value.length],
        hit = found.some((f) => holds(f, own));
      if (!hit && process.argv.includes('--misses'))
        console.log(`${rule} ${path}: ${JSON.stringify(line.slice(0, 160))}`);
      for (const key of [rule, 'all', rule.includes('PEM') ? 'several lines (PEM)' : 'in one line']) {
        const row = byRule.get(key) ?? { hits: 0, of: 0 };
        byRule.set(key, { hits: row.hits + Number(hit), of: row.of + 1 });
      }
    }
  console.log(
    `secrets of CredSweeper's samples found whole, in ${texts.size} files; ${left} labels are not lines of a text file`,
  );
  const rows = [...byRule].sort((a, b) => b[1].of - a[1].of);
  for (const [rule, { hits, of }] of rows.slice(0, 24)) console.log(`| ${rule} | ${share(hits, of)} |`);
  const rest = rows
    .slice(24)
    .reduce((sum, [, r]) => ({ hits: sum.hits + r.hits, of: sum.of + r.of }), { hits: 0, of: 0 });
  console.log(`| ${rows.length - 24} other rules | ${share(rest.hits, rest.of)} |`);
}

const [folder, novel, set = 'development', ...flags] = process.argv.slice(2);
if (set === 'outside')
  outsideRecall(
    flags[0],
    flags.find((flag) => /^[01]$/.test(flag)),
  );
else snippetsFound(readSnippets(readFileSync(join(folder, `${set}.txt`), 'utf8'), set));

function snippetsFound(snippets: readonly Snippet[]): void {
  for (const [name, find] of Object.entries(FINDERS)) {
    if (flags.includes('--misses') && name !== 'details') continue;
    const rows = new Map<
      string,
      { whole: number; part: number; values: number; right: number; found: number; snippets: number; clean: number }
    >();
    for (const { kind, text, marks } of snippets) {
      const found = find(text),
        values = marks.filter(({ mark }) => mark === 'value').map(({ at }) => at),
        missed = values.filter((at) => !found.some((f) => holds(f, at))),
        wrong = found.filter((f) => !marks.some(({ at }) => meets(f, at)));
      if (flags.includes('--misses'))
        for (const [what, list] of [
          ['missed', missed],
          ['wrong', wrong],
        ] as const)
          for (const at of list)
            console.log(
              `${kind}: ${what} ${JSON.stringify(text.slice(...at))} in ${JSON.stringify(text.slice(Math.max(0, at[0] - 50), at[1] + 25))}`,
            );
      for (const key of [kind, 'all']) {
        const row = rows.get(key) ?? { whole: 0, part: 0, values: 0, right: 0, found: 0, snippets: 0, clean: 0 };
        row.snippets++;
        row.clean += Number(found.length === 0);
        row.values += values.length;
        row.whole += values.length - missed.length;
        row.part += values.filter((at) => found.some((f) => meets(f, at))).length;
        const counted = found.filter((f) => !marks.some(({ mark, at }) => mark === 'either' && meets(f, at)));
        row.found += counted.length;
        row.right += counted.filter((f) => values.some((at) => meets(f, at))).length;
        rows.set(key, row);
      }
    }
    console.log(
      `\n${name} on ${set}: ${snippets.length} snippets\n| kind | whole values found | found that are values | snippets with none |\n| --- | --- | --- | --- |`,
    );
    for (const [kind, r] of rows)
      console.log(
        `| ${kind} | ${share(r.whole, r.values)} | ${share(r.right, r.found)} | ${r.clean} of ${r.snippets} |`,
      );
  }
  const book = readFileSync(novel, 'utf8'),
    inBook = FINDERS.details(book);
  console.log(
    `\nnovel: ${inBook.length} found in ${book.split(/\s+/).length} words${flags.includes('--misses') ? `: ${inBook.map((at) => book.slice(...at)).join(' | ')}` : ''}`,
  );
}
