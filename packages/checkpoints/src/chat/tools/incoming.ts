/** A part of an answer being read: pauses where the text has not come yet. */
export type Reading<T> = Generator<undefined, T, undefined>;

/** Whether to take a character, to take it as the last, or to stop before it. */
export type Taking = 'take' | 'last' | 'stop';

/** Characters that a call may have; what is longer is text. */
const MOST = 2 ** 22;

/** An answer's text as it comes, read character by character. */
export class Incoming {
  #text = '';
  #at = 0;
  #ended = false;
  /** What was taken since it was last emptied. */
  taken = '';

  feed(text: string): void {
    this.#text = this.#text.slice(this.#at) + text;
    this.#at = 0;
  }

  end(): void {
    this.#ended = true;
  }

  /** Puts back the last characters that were taken. */
  unread(text: string): void {
    this.taken = this.taken.slice(0, this.taken.length - text.length);
    this.#text = text + this.#text.slice(this.#at);
    this.#at = 0;
  }

  /** Returns the next character, or `''` at the answer's end and where too much was taken. */
  *peek(): Reading<string> {
    while (this.#at === this.#text.length) {
      if (this.#ended) return '';
      yield;
    }
    return this.taken.length < MOST ? this.#text.charAt(this.#at) : '';
  }

  /** Takes characters as `of` says, and returns them. */
  *take(of: (char: string) => Taking): Reading<string> {
    let took = '';
    while ((yield* this.peek()) !== '') {
      const from = this.#at;
      let taking: Taking = 'take';
      while (taking === 'take' && this.#at < this.#text.length) {
        taking = of(this.#text.charAt(this.#at));
        if (taking !== 'stop') this.#at++;
      }
      const part = this.#text.slice(from, this.#at);
      took += part;
      this.taken += part;
      if (taking !== 'take') return took;
    }
    return took;
  }

  /** Takes the characters that match. */
  *all(of: RegExp): Reading<string> {
    return yield* this.take((char) => (of.test(char) ? 'take' : 'stop'));
  }

  /** Takes white space. */
  *space(): Reading<string> {
    return yield* this.all(/\s/);
  }

  /** Takes a text; returns whether it came, and took what of it came. */
  *literal(text: string): Reading<boolean> {
    let at = 0;
    yield* this.take((char) => (char !== text.charAt(at) ? 'stop' : ++at === text.length ? 'last' : 'take'));
    return at === text.length;
  }

  /**
   * Takes text up to and with the first of the marks, none of which may begin another.
   * @param pass gets the text before it, as it becomes certain; `cut` where the answer ends within what may be a mark
   * @returns the mark, or undefined at the answer's end
   */
  *until(marks: readonly string[], pass: (text: string, cut?: true) => void): Reading<string | undefined> {
    const first = new Set(marks.map((mark) => mark.charAt(0)));
    let held = '';
    for (;;) {
      const text = held === '' ? this.#before(first) : '';
      if (text !== '') pass(text);
      if ((yield* this.peek()) === '') {
        if (held !== '') pass(held, true);
        return undefined;
      }
      yield* this.take((char) => {
        held += char;
        return 'last';
      });
      if (marks.includes(held)) return held;
      let from = 0;
      while (from < held.length && !marks.some((mark) => mark.startsWith(held.slice(from)))) from++;
      if (from > 0) pass(held.slice(0, from));
      held = held.slice(from);
    }
  }

  /** Takes what has already come of the text before any of the characters. */
  #before(chars: ReadonlySet<string>): string {
    const from = this.#at;
    while (this.#at < this.#text.length && !chars.has(this.#text.charAt(this.#at))) this.#at++;
    const text = this.#text.slice(from, this.#at);
    this.taken += text;
    return text;
  }
}
