import type { RenderWork } from './render-limit.ts';

/**
 * A string that records which of its characters come from the conversation: `spans` is a flat list of their `[from,
 * to)` ranges, ordered and disjoint. Every text operation of a template carries the spans along.
 */
export class TemplateText {
  readonly text: string;
  readonly spans: readonly number[];
  /** Whether `|safe` or `|escape` made it, so that text joined to it is escaped (Python's `Markup`). */
  readonly safe: boolean;
  /** Null where every character is one unit. */
  #begins: readonly number[] | null | undefined;

  constructor(text: string, spans: readonly number[] = NONE, safe = false) {
    this.text = text;
    this.spans = spans;
    this.safe = safe;
  }

  /** Returns a text that comes entirely from the conversation. */
  static given(text: string): TemplateText {
    return new TemplateText(text, text === '' ? NONE : [0, text.length]);
  }

  /** Returns the characters `[from, to)`, counted in UTF-16 units. */
  slice(from: number, to = this.text.length): TemplateText {
    if (from === 0 && to === this.text.length) return this;
    if (this.spans === NONE || to <= from) return new TemplateText(this.text.slice(from, to), NONE, this.safe);
    const spans: number[] = [];
    for (let i = firstAfter(this.spans, from); i < this.spans.length && (this.spans[i] as number) < to; i += 2)
      spans.push(Math.max(this.spans[i] as number, from) - from, Math.min(this.spans[i + 1] as number, to) - from);
    return new TemplateText(this.text.slice(from, to), spans.length === 0 ? NONE : spans, this.safe);
  }

  /** Returns the index at which each character begins, and the end; undefined if every character is one unit. */
  begins(work: RenderWork): readonly number[] | undefined {
    if (this.#begins === undefined) {
      work.spend(this.text.length); // once, however often a loop asks
      this.#begins = PAIRS.test(this.text)
        ? [...Array.from(points(this.text), ([start]) => start), this.text.length]
        : null;
    }
    return this.#begins ?? undefined;
  }

  /** Returns the length in characters, as Python counts them. */
  count(work: RenderWork): number {
    return (this.begins(work)?.length ?? this.text.length + 1) - 1;
  }

  as(safe: boolean): TemplateText {
    return safe === this.safe ? this : new TemplateText(this.text, this.spans, safe);
  }

  /** Applies `change`, which must act on characters independently; if the length changes, run by run. */
  map(work: RenderWork, change: (text: string) => string): TemplateText {
    const whole = change(this.text);
    if (this.spans === NONE || whole.length === this.text.length) {
      work.made(whole.length);
      return new TemplateText(whole, this.spans, this.safe);
    }
    const made = new TextBuilder(work);
    for (const run of this.runs()) made.add(new TemplateText(change(run.text), NONE), run.spans !== NONE);
    return made.done(this.safe);
  }

  /** Yields its runs of conversation text and of other text. */
  *runs(): Generator<TemplateText> {
    let at = 0;
    for (let i = 0; i < this.spans.length; i += 2) {
      const [from, to] = [this.spans[i] as number, this.spans[i + 1] as number];
      if (from > at) yield this.slice(at, from);
      yield this.slice(from, to);
      at = to;
    }
    if (at < this.text.length) yield this.slice(at);
  }
}

export const NONE: readonly number[] = [];

/** Returns the index of the first span that ends after `at`. */
function firstAfter(spans: readonly number[], at: number): number {
  let [low, high] = [0, spans.length / 2];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[2 * middle + 1] as number) <= at) low = middle + 1;
    else high = middle;
  }
  return 2 * low;
}

/** Concatenates texts; adjacent spans are merged. */
export class TextBuilder {
  readonly #work: RenderWork;
  readonly #parts: string[] = [];
  readonly #spans: number[] = [];
  #length = 0;

  constructor(work: RenderWork) {
    this.#work = work;
  }

  /**
   * Appends a part; with `given`, all of it counts as coming from the conversation.
   * @throws Error before the text becomes too long
   */
  add(part: TemplateText | string, given = false): this {
    const { text, spans } = typeof part === 'string' ? { text: part, spans: NONE } : part;
    if (text === '') return this;
    this.#work.made(text.length + spans.length, this.#length);
    if (given) this.#span(0, text.length);
    else for (let i = 0; i < spans.length; i += 2) this.#span(spans[i] as number, spans[i + 1] as number);
    this.#parts.push(text);
    this.#length += text.length;
    return this;
  }

  #span(from: number, to: number): void {
    const [start, end] = [this.#length + from, this.#length + to];
    if (this.#spans.at(-1) === start) this.#spans[this.#spans.length - 1] = end;
    else this.#spans.push(start, end);
  }

  done(safe = false): TemplateText {
    return new TemplateText(this.#parts.join(''), this.#spans.length === 0 ? NONE : this.#spans, safe);
  }
}

/** Concatenates texts. */
export function concat(work: RenderWork, ...parts: readonly (TemplateText | string)[]): TemplateText {
  const made = new TextBuilder(work);
  for (const part of parts) made.add(part);
  return made.done();
}

/** Joins texts with a separator. */
export function join(
  work: RenderWork,
  between: TemplateText | string,
  parts: readonly (TemplateText | string)[],
): TemplateText {
  const made = new TextBuilder(work);
  parts.forEach((part, i) => {
    work.spend(1);
    if (i > 0) made.add(between);
    made.add(part);
  });
  return made.done();
}

/** Repeats a text. @throws Error before it becomes too long */
export function repeat(work: RenderWork, part: TemplateText, times: number): TemplateText {
  if (part.text === '' || times <= 0) return new TemplateText('');
  work.made(part.text.length * times);
  if (part.spans === NONE) return new TemplateText(part.text.repeat(times));
  const made = new TextBuilder(work);
  for (let i = 0; i < times; i++) made.add(part);
  return made.done();
}

/** Python's `str.replace`: at most `count` replacements, all if it is negative. */
export function replace(
  work: RenderWork,
  text: TemplateText,
  old: string,
  by: TemplateText | string,
  count = -1,
): TemplateText {
  const made = new TextBuilder(work);
  let [done, left] = [0, count < 0 ? Number.POSITIVE_INFINITY : count];
  if (old === '') {
    for (const at of [...points(text.text)].map(([start]) => start)) {
      if (left-- <= 0) break;
      made.add(text.slice(done, at)).add(by);
      done = at;
    }
    if (left > 0) return made.add(text.slice(done)).add(by).done();
  } else
    for (let at = text.text.indexOf(old); at >= 0 && left-- > 0; at = text.text.indexOf(old, done)) {
      made.add(text.slice(done, at)).add(by);
      done = at + old.length;
    }
  return made.add(text.slice(done)).done();
}

/** Yields `[start, end)` of each code point, which is how Python counts characters. */
function* points(text: string): Generator<[number, number]> {
  for (let at = 0; at < text.length; ) {
    const end = at + ((text.codePointAt(at) as number) > 0xffff ? 2 : 1);
    yield [at, end];
    at = end;
  }
}

const PAIRS = /[\ud800-\udbff][\udc00-\udfff]/;

/** Python's order of strings: by code points. */
export function compareText(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  for (let i = 0; i < most; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x === y) continue;
    // Surrogate units stand for code points above all others.
    const lifted = (unit: number): number => (unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit);
    return lifted(x) < lifted(y) ? -1 : 1;
  }
  return Math.sign(a.length - b.length);
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** Escapes HTML characters, unless the text is marked safe. */
export function escapeHtml(work: RenderWork, text: TemplateText): TemplateText {
  if (text.safe) return text;
  return text.map(work, (part) => part.replace(/[&<>'"]/g, (char) => ESCAPES[char] as string)).as(true);
}
