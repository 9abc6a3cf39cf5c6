import { randomBytes } from 'node:crypto';
import type { AnswerReader, Tokenizer } from '@kv/models';
import type { ScoredToken } from '../protocol/logprobs.ts';
import type { StopReason, TokenEvent } from './answer-choice.ts';
import type { JobEvent, Usage } from './job.ts';

/** Why an answer ended: by itself or at a stop text, at its length, or because functions are to be called. */
export type FinishReason = StopReason | 'tool_calls';

/** What an answer says, part by part, whichever protocol it goes out in. */
export type AnswerEvent =
  | ({ readonly what: 'text' | 'reasoning'; readonly text: string } & OfChoice)
  /** A call begins: its number in the choice, from 0. */
  | ({ readonly what: 'call'; readonly call: number; readonly id: string; readonly name: string } & OfChoice)
  /** More of its arguments: together JSON text of an object. A call that the answer ends in is none. */
  | ({ readonly what: 'arguments'; readonly call: number; readonly text: string } & OfChoice)
  /** The choice ended, perhaps at one of the stop texts. */
  | ({ readonly what: 'end'; readonly finish: FinishReason; readonly stopText?: string | undefined } & OfChoice)
  /** The last event: of all prompts and choices together. */
  | { readonly what: 'usage'; readonly usage: Usage };

/** What one choice says. */
export type ChoiceEvent = Exclude<AnswerEvent, { readonly what: 'usage' }>;

interface OfChoice {
  readonly choice: number;
  /** Tokens with their log-probabilities, where they were asked for: of the event, or of what led to it. */
  readonly scored?: readonly ScoredToken[] | undefined;
}

/** What the events of an answer are built from. */
interface AnswerSource {
  readonly tokenizer: Tokenizer;
  /** Choices of a prompt. */
  readonly n: number;
  /** For each prompt, what of it begins the answers. */
  readonly echoed: readonly string[];
  /** Begins to read one choice's text for calls and reasoning. @defaultValue all is text */
  readonly reader?: (() => AnswerReader) | undefined;
}

/** Turns the events of jobs into those of an answer, whose choices are numbered over all prompts. */
export async function* answerEvents(
  { tokenizer, n, echoed, reader }: AnswerSource,
  events: AsyncIterable<JobEvent>,
): AsyncGenerator<AnswerEvent, void> {
  const begun = echoed.map(() => false),
    usage: Usage[] = [],
    heard = Array.from({ length: n * echoed.length }, () => new ChoiceReading(reader?.())),
    read = echoed.map((text) => ({ stream: tokenizer.streamDecoder(), at: 0, most: text.length }));
  for await (const event of events) {
    const { job } = event;
    if (event.what === 'begin') continue;
    if (event.what === 'end') {
      usage.push(event.usage);
      if (usage.length < echoed.length) continue;
      yield { what: 'usage', usage: totalUsage(usage) };
      return;
    }
    const before = begun[job] ? '' : echoed[job];
    begun[job] = true;
    if (event.what === 'prompt') {
      const place = read[job],
        scored = event.scored.map((each) => {
          const offset = Math.min(place.at, place.most);
          place.at += place.stream.push(each.id).length;
          return { ...each, offset };
        });
      for (let c = 0; c < n; c++) yield { what: 'text', choice: job * n + c, text: before, scored };
      continue;
    }
    if (before !== '') for (let c = 0; c < n; c++) yield { what: 'text', choice: job * n + c, text: before };
    const choice = job * n + event.choice;
    for (const part of heard[choice].push(event)) yield { ...part, choice };
  }
}

/** An event whose choice is known. */
type Heard<T = ChoiceEvent> = T extends unknown ? Omit<T, 'choice'> : never;

/** Reads one choice: what of its text is said, thought and called. */
class ChoiceReading {
  readonly #reader: AnswerReader | undefined;
  readonly #calls = new Set<string>();
  constructor(reader: AnswerReader | undefined) {
    this.#reader = reader;
  }

  push({ text, scored, finish, stopText }: TokenEvent): readonly Heard[] {
    const events = [...this.#parts(text, finish !== undefined)];
    if (scored) events[0] = { ...(events[0] ?? { what: 'text', text: '' }), scored };
    if (finish)
      events.push({ what: 'end', finish: finish === 'stop' && this.#calls.size > 0 ? 'tool_calls' : finish, stopText });
    return events;
  }

  #parts(text: string, last: boolean): readonly Heard[] {
    if (!this.#reader) return text === '' ? [] : [{ what: 'text', text }];
    const parts = [...this.#reader.push(text), ...(last ? this.#reader.end() : [])];
    return parts.map((part) => {
      if (part.what !== 'call') return part;
      // a model may write an id twice
      const id = part.id === undefined || this.#calls.has(part.id) ? callId() : part.id;
      this.#calls.add(id);
      return { ...part, id };
    });
  }
}

/** A new id of a call: nine letters and digits, the form that every chat template takes. */
const callId = (): string => randomBytes(9).toString('hex').slice(0, 9);

/** Returns the usage of several prompts together. */
function totalUsage(all: readonly Usage[]): Usage {
  const sum = (of: (usage: Usage) => number): number => all.reduce((n, each) => n + of(each), 0);
  return {
    promptTokens: sum((u) => u.promptTokens),
    tokensReused: sum((u) => u.tokensReused),
    tokensRead: sum((u) => u.tokensRead),
    tokensDropped: sum((u) => u.tokensDropped),
    completionTokens: sum((u) => u.completionTokens),
    keptSlots: sum((u) => u.keptSlots),
    droppedSlots: sum((u) => u.droppedSlots),
    cache: {
      ...all[0].cache,
      liveBytes: sum((u) => u.cache.liveBytes),
      peakBytes: Math.max(...all.map((u) => u.cache.peakBytes)),
      recordedBytes: sum((u) => u.cache.recordedBytes),
    },
    scoredEvicted: all.some((u) => u.scoredEvicted),
    notes: new Set(all.flatMap(({ notes }) => [...notes])),
  };
}
