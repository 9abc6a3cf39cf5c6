import type { AnswerEvent } from '../run/answer-event.ts';

/** Joins texts that were apart, such as the parts of a message: without it their last and first words would be one. */
export const joined = (texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n');

/** Joins what an answer says, and what it thinks, over what stands between. */
export class TextJoin {
  readonly #said = new Set<string>();
  #last = '';

  /** Returns a text of this kind, after what `joined` puts before it. */
  add(what: string, text: string): string {
    if (text === '') return text;
    const apart = this.#last !== what && this.#said.has(what);
    this.#said.add(what);
    this.#last = what;
    return apart ? `\n${text}` : text;
  }
}

/** Yields the events of answers whose texts are given as one. */
export async function* joinedEvents(events: AsyncIterable<AnswerEvent>): AsyncGenerator<AnswerEvent> {
  const joins = new Map<number, TextJoin>();
  for await (const event of events) {
    if (event.what === 'usage' || event.what === 'end') {
      yield event;
      continue;
    }
    const join = joins.get(event.choice) ?? new TextJoin();
    joins.set(event.choice, join);
    if (event.what === 'call') join.add('call', event.name);
    yield event.what === 'text' || event.what === 'reasoning'
      ? { ...event, text: join.add(event.what, event.text) }
      : event;
  }
}
