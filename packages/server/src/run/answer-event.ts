import type { Tokenizer } from '@kv/models';
import type { ScoredToken } from '../protocol/logprobs.ts';
import type { StopReason } from './answer-choice.ts';
import type { JobEvent, Usage } from './job.ts';

/** What an answer says, part by part, whichever protocol it goes out in. */
export type AnswerEvent =
  | {
      readonly what: 'text';
      readonly choice: number;
      readonly text: string;
      readonly scored?: readonly ScoredToken[] | undefined;
    }
  | { readonly what: 'end'; readonly choice: number; readonly finish: StopReason }
  /** The last event: of all prompts and choices together. */
  | { readonly what: 'usage'; readonly usage: Usage };

/** What the events of an answer are built from. */
interface AnswerSource {
  readonly tokenizer: Tokenizer;
  /** Choices of a prompt. */
  readonly n: number;
  /** For each prompt, what of it begins the answers. */
  readonly echoed: readonly string[];
}

/** Turns the events of jobs into those of an answer, whose choices are numbered over all prompts. */
export async function* answerEvents(
  { tokenizer, n, echoed }: AnswerSource,
  events: AsyncIterable<JobEvent>,
): AsyncGenerator<AnswerEvent, void> {
  const begun = echoed.map(() => false),
    usage: Usage[] = [],
    read = echoed.map((text) => ({ stream: tokenizer.streamDecoder(), at: 0, most: text.length }));
  for await (const event of events) {
    const { job } = event;
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
    const { text, scored, finish } = event,
      choice = job * n + event.choice;
    if (text !== '' || scored) yield { what: 'text', choice, text, scored };
    if (finish) yield { what: 'end', choice, finish };
  }
}

/** Returns the usage of several prompts together. */
function totalUsage(all: readonly Usage[]): Usage {
  const sum = (of: (usage: Usage) => number): number => all.reduce((n, each) => n + of(each), 0);
  return {
    promptTokens: sum((u) => u.promptTokens),
    cachedTokens: sum((u) => u.cachedTokens),
    completionTokens: sum((u) => u.completionTokens),
    keptSlots: sum((u) => u.keptSlots),
    droppedSlots: sum((u) => u.droppedSlots),
    cache: {
      ...all[0].cache,
      liveBytes: sum((u) => u.cache.liveBytes),
      peakBytes: Math.max(...all.map((u) => u.cache.peakBytes)),
    },
    scoredEvicted: all.some((u) => u.scoredEvicted),
    notes: new Set(all.flatMap(({ notes }) => [...notes])),
  };
}
