import { randomUUID } from 'node:crypto';
import type { Budget, Model } from '@kv/models';
import { chatLogprobs, completionLogprobs } from '../protocol/logprobs.ts';
import type { ScoredToken } from '../protocol/logprobs.ts';
import { refusalOf } from '../protocol/refusal.ts';
import type { StopReason } from '../run/answer-choice.ts';
import type { JobEvent, Usage } from '../run/job.ts';

/** What a response is built from. */
export interface ResponseSource {
  readonly kind: 'chat' | 'completion';
  readonly model: Pick<Model, 'tokenizer'>;
  readonly name: string;
  readonly n: number;
  /** For each prompt: its text, if it is echoed, and its ids. */
  readonly prompts: readonly { readonly echoed: string; readonly ids: readonly number[] }[];
  readonly logprobs: boolean;
  /** The policy of the caches, as text. */
  readonly policy: string;
  readonly budget: Budget | undefined;
  readonly includeUsage: boolean;
}

/** A delta of one choice. */
interface Piece {
  readonly index: number;
  readonly text: string;
  readonly scored: readonly ScoredToken[];
  readonly finish: StopReason | null;
}

/** Turns the events of a request into deltas of its choices; appends the usage of each prompt to `usage`. */
async function* pieces(
  { model: { tokenizer }, n, prompts }: ResponseSource,
  events: AsyncIterable<JobEvent>,
  usage: Usage[],
): AsyncGenerator<Piece, void> {
  const begun = prompts.map(() => false),
    read = prompts.map(({ echoed }) => ({ stream: tokenizer.streamDecoder(), at: 0, most: echoed.length }));
  for await (const event of events) {
    const { job } = event,
      { echoed } = prompts[job];
    if (event.what === 'end') {
      usage.push(event.usage);
      if (usage.length === prompts.length) return;
      continue;
    }
    const before = begun[job] ? '' : echoed;
    begun[job] = true;
    if (event.what === 'prompt') {
      const place = read[job],
        scored = event.scored.map((each) => {
          const offset = Math.min(place.at, place.most);
          place.at += place.stream.push(each.id).length;
          return { ...each, offset };
        });
      for (let c = 0; c < n; c++) yield { index: job * n + c, text: before, scored, finish: null };
      continue;
    }
    const { choice, text, scored = [], finish = null } = event;
    if (before !== '') for (let c = 0; c < n; c++) yield { index: job * n + c, text: before, scored: [], finish: null };
    if (text !== '' || scored.length > 0 || finish) yield { index: job * n + choice, text, scored, finish };
  }
}

const sum = (all: readonly Usage[], of: (usage: Usage) => number): number => all.reduce((n, each) => n + of(each), 0);
const usageOf = (all: readonly Usage[]): object => {
  const [prompt, completion] = [sum(all, (u) => u.promptTokens), sum(all, (u) => u.completionTokens)];
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: sum(all, (u) => u.tokensReused) },
    kept_slots: sum(all, (u) => u.keptSlots),
    dropped_slots: sum(all, (u) => u.droppedSlots),
    cache: {
      form: all[0].cache.form,
      bytes_per_token: all[0].cache.bytesPerToken,
      live_bytes: sum(all, (u) => u.cache.liveBytes),
      peak_bytes: Math.max(...all.map((u) => u.cache.peakBytes)),
      ...(all[0].cache.stateBytes > 0 && { state_bytes: all[0].cache.stateBytes }),
    },
  };
};
/** Builds the `kv` field: policy, budget, notes, and the cache that an echoed prompt was scored under. */
const kvOf = ({ policy, budget, logprobs, prompts }: ResponseSource, usage: readonly Usage[]): object => ({
  policy,
  ...(budget !== undefined && { budget }),
  ...(usage.some(({ notes }) => notes.size > 0) && { notes: [...new Set(usage.flatMap(({ notes }) => [...notes]))] }),
  ...(logprobs &&
    prompts.some(({ echoed }) => echoed !== '') && {
      prompt_scored_under: usage.some((u) => u.scoredEvicted) ? 'evicted cache' : 'full cache',
    }),
});

const head = ({ kind, name }: ResponseSource, streamed: boolean): object => ({
  id: `${kind === 'chat' ? 'chatcmpl' : 'cmpl'}-${randomUUID()}`,
  object: kind === 'completion' ? 'text_completion' : streamed ? 'chat.completion.chunk' : 'chat.completion',
  created: Math.floor(Date.now() / 1000),
  model: name,
});

const logprobsOf = (
  { kind, logprobs, model: { tokenizer } }: ResponseSource,
  scored: readonly ScoredToken[],
): object | null =>
  !logprobs || (scored.length === 0 && kind === 'completion')
    ? null
    : kind === 'chat'
      ? chatLogprobs(tokenizer, scored)
      : completionLogprobs(tokenizer, scored);

/** The whole answer. @throws Refusal where a job failed */
export async function wholeAnswer(answer: ResponseSource, events: AsyncIterable<JobEvent>): Promise<object> {
  const usage: Usage[] = [],
    choices = answer.prompts.flatMap(() =>
      Array.from({ length: answer.n }, () => ({
        text: '',
        scored: [] as ScoredToken[],
        finish: null as StopReason | null,
      })),
    );
  for await (const { index, text, scored, finish } of pieces(answer, events, usage)) {
    const choice = choices[index];
    choice.text += text;
    choice.scored.push(...scored);
    choice.finish = finish ?? choice.finish;
  }
  return {
    ...head(answer, false),
    choices: choices.map(({ text, scored, finish }, index) => ({
      index,
      ...(answer.kind === 'chat' ? { message: { role: 'assistant', content: text, refusal: null } } : { text }),
      logprobs: logprobsOf(answer, scored),
      finish_reason: finish,
    })),
    usage: usageOf(usage),
    kv: kvOf(answer, usage),
  };
}

/** The answer as server-sent events; a failure is one more of them. */
export async function* streamedAnswer(
  answer: ResponseSource,
  events: AsyncIterable<JobEvent>,
): AsyncGenerator<string, void> {
  const usage: Usage[] = [],
    same = head(answer, true),
    spoken = new Set<number>();
  const frame = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
  try {
    for await (const { index, text, scored, finish } of pieces(answer, events, usage)) {
      const role = answer.kind === 'chat' && !spoken.has(index) && { role: 'assistant' };
      spoken.add(index);
      yield frame({
        ...same,
        choices: [
          {
            index,
            ...(answer.kind === 'chat'
              ? { delta: { ...role, ...(text !== '' || role ? { content: text } : {}) } }
              : { text }),
            logprobs: logprobsOf(answer, scored),
            finish_reason: finish,
          },
        ],
        ...(answer.includeUsage && { usage: null }),
      });
    }
    if (answer.includeUsage) yield frame({ ...same, choices: [], usage: usageOf(usage), kv: kvOf(answer, usage) });
    yield 'data: [DONE]\n\n';
  } catch (cause) {
    yield frame(refusalOf(cause).body);
  }
}
