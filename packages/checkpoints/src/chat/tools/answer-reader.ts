import type { CallSyntax, ReadCall } from './call-syntax.ts';
import { Incoming, type Reading } from './incoming.ts';
import type { AnswerPart, AnswerReader, ToolFunction } from './tool-format.ts';

/** Texts before and after reasoning. */
export interface ReasoningMarks {
  readonly open: string;
  readonly close: string;
}

/** Returns the text of the special token that begins reasoning: Gemma writes the name of a channel after it. */
export const tokenOf = ({ open }: ReasoningMarks): string => open.replace(/thought$/, '');

/** What a reader looks for in an answer. */
export interface AnswerForms {
  readonly syntax?: CallSyntax | undefined;
  readonly reasoning?: ReasoningMarks | undefined;
  /** Whether the prompt ends within reasoning. */
  readonly opened: boolean;
  readonly tools: readonly ToolFunction[];
}

/** Makes a reader of a generator that reads an answer into parts. */
export function readerOf(read: (input: Incoming, out: AnswerParts) => Reading<void>): AnswerReader {
  const input = new Incoming(),
    out = new AnswerParts(),
    reading = read(input, out);
  return {
    push(text) {
      input.feed(text);
      reading.next();
      return out.drain();
    },
    end() {
      input.end();
      reading.next();
      return out.drain();
    },
  };
}

const NONE = { triggers: [], closers: [] };

/** Reads an answer's text, reasoning and calls. */
export function* readAnswer(input: Incoming, out: AnswerParts, forms: AnswerForms): Reading<void> {
  const { syntax, reasoning, tools } = forms,
    { triggers, closers }: Pick<CallSyntax, 'triggers' | 'closers'> = tools.length > 0 && syntax ? syntax : NONE,
    offered = new Map(tools.map((tool) => [tool.name, tool])),
    marks = [...triggers, ...closers, ...(reasoning ? [reasoning.open] : [])];
  const begins = (text: string): boolean =>
    reasoning !== undefined && out.silent && text.startsWith(tokenOf(reasoning));
  const pass = (what: 'text' | 'reasoning') => (text: string, cut?: true) => {
    // the closing mark of a call that is whole, or what begins reasoning, cut short by a limit of tokens, is no text
    if (!cut || !(begins(text) || (out.closing && closers.some((mark) => mark.startsWith(text))))) out.say(what, text);
    input.taken = '';
  };
  const report = (call: ReadCall): boolean => {
    if (!offered.has(call.name)) return false;
    out.call(call);
    input.taken = '';
    return true;
  };
  let thinking = reasoning !== undefined && forms.opened;
  for (;;) {
    if (thinking) {
      if ((yield* input.until([reasoning!.close], pass('reasoning'))) === undefined) return out.end();
      out.edge();
      thinking = false;
    }
    const mark = yield* input.until(marks, pass('text'));
    if (mark === undefined) return out.end();
    input.taken = mark;
    if (mark === reasoning?.open && out.silent) {
      out.edge();
      thinking = true;
    } else if (triggers.includes(mark) && (out.silent || syntax?.first === undefined)) {
      if (!(yield* syntax!.read(input, report, offered))) giveBack(input, out, marks);
    } else if (!closers.includes(mark) || !out.closing) out.say('text', mark);
    input.taken = '';
  }
}

/** Gives what was no call as text, but for an end that may begin another mark. */
function giveBack(input: Incoming, out: AnswerParts, marks: readonly string[]): void {
  const { taken } = input;
  for (
    let from = Math.max(1, taken.length - Math.max(...marks.map(({ length }) => length)));
    from < taken.length;
    from++
  )
    if (marks.some((mark) => mark.startsWith(taken.slice(from)))) {
      input.unread(taken.slice(from));
      break;
    }
  out.say('text', input.taken);
}

/** Parts of an answer, collected. White space at the edges of calls and of reasoning is left out. */
export class AnswerParts {
  #parts: AnswerPart[] = [];
  #what: 'text' | 'reasoning' = 'text';
  /** White space that an edge may follow. */
  #space = '';
  /** Whether nothing but white space has come since an edge. */
  #fresh = false;
  #calls = 0;
  /** What came last. */
  #last: AnswerPart['what'] | undefined;
  /** Whether nothing but reasoning and white space of ASCII has come. */
  silent = true;

  /** Whether nothing but white space has come since a call. */
  get closing(): boolean {
    return this.#fresh && this.#calls > 0;
  }

  say(what: 'text' | 'reasoning', all: string): void {
    if (what === 'text') this.silent &&= /^[\t-\r ]*$/.test(all);
    const text = this.#fresh ? all.trimStart() : all,
      inner = text.trimEnd();
    if (text === '') return;
    // messages of one channel that follow one another are lines
    if (inner !== '' && this.#fresh && this.#last === what) this.#space = '\n';
    this.#fresh = false;
    if (inner !== '') {
      this.#last = what;
      this.#add(what, this.#space + inner);
      this.#space = '';
    }
    this.#space += text.slice(inner.length);
    this.#what = what;
  }

  /** Leaves out white space before and after this point. */
  edge(): void {
    [this.#space, this.#fresh] = ['', true];
  }

  call({ name, arguments: text, id }: ReadCall): void {
    const call = this.#calls++;
    this.#last = 'call';
    this.#parts.push({ what: 'call', call, name, ...(id !== undefined && { id }) }, { what: 'arguments', call, text });
    this.silent = false;
    this.edge();
  }

  /** Ends the answer. */
  end(): void {
    if (this.#space !== '') this.#add(this.#what, this.#space);
    this.#space = '';
  }

  /** Returns the parts that came since the last call of this. */
  drain(): readonly AnswerPart[] {
    return this.#parts.splice(0);
  }

  #add(what: 'text' | 'reasoning', text: string): void {
    const last = this.#parts.at(-1);
    if (last?.what === what) this.#parts[this.#parts.length - 1] = { what, text: last.text + text };
    else this.#parts.push({ what, text });
  }
}
