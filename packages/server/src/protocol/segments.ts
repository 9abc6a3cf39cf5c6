import type { AnswerEvent, FinishReason } from '../run/answer-event.ts';
import type { Usage } from '../run/job.ts';
import type { ScoredToken } from './logprobs.ts';

/** A stretch of an answer: what is said, what is thought, or one call with the JSON text of its arguments. */
export interface Segment {
  readonly kind: 'text' | 'reasoning' | 'call';
  /** Number of the segment in its answer. */
  readonly index: number;
  /** Text so far: of a call, its arguments. */
  text: string;
  /** Whether it ended by itself, as calls always do, and not because the answer had its length. */
  complete: boolean;
  readonly scored: ScoredToken[];
  /** Of a call. */
  readonly call?: { readonly id: string; readonly name: string };
}

/** What happens to the segments of an answer, in order: each begins, grows and closes before the next one. */
export type SegmentEvent =
  | { readonly what: 'begin'; readonly segment: Segment }
  | { readonly what: 'close'; readonly segment: Segment }
  | {
      readonly what: 'grow';
      readonly segment: Segment;
      readonly text: string;
      readonly scored: readonly ScoredToken[];
    }
  | { readonly what: 'end'; readonly finish: FinishReason; readonly stopText?: string | undefined }
  | { readonly what: 'usage'; readonly usage: Usage };

/** Turns the events of an answer of one choice into those of its segments. */
export async function* segmentsOf(events: AsyncIterable<AnswerEvent>): AsyncGenerator<SegmentEvent, void> {
  let open: Segment | undefined,
    count = 0,
    early: readonly ScoredToken[] = []; // of tokens that have no text yet, such as parts of a character
  const begin = (kind: Segment['kind'], call?: Segment['call']): SegmentEvent => {
    open = { kind, index: count++, text: '', complete: false, scored: [], ...(call && { call }) };
    return { what: 'begin', segment: open };
  };
  const close = (complete: boolean): readonly SegmentEvent[] => {
    const segment = open;
    open = undefined;
    return segment ? [{ what: 'close', segment: Object.assign(segment, { complete }) }] : [];
  };
  for await (const event of events)
    if (event.what === 'usage') yield event;
    else if (event.what === 'end') {
      yield* close(event.finish !== 'length' || open?.kind === 'call'); // a call comes whole
      yield { what: 'end', finish: event.finish, stopText: event.stopText };
    } else if (event.what === 'call') {
      yield* close(true);
      yield begin('call', { id: event.id, name: event.name });
    } else {
      const kind = event.what === 'arguments' ? 'call' : event.what,
        scored = [...early, ...(event.scored ?? [])];
      if (event.text === '' && open?.kind !== kind) {
        early = scored;
        continue;
      }
      early = [];
      if (open?.kind !== kind) {
        yield* close(true);
        yield begin(kind);
      }
      const segment = open!; // it has begun
      segment.text += event.text;
      segment.scored.push(...scored);
      if (event.text !== '' || scored.length > 0) yield { what: 'grow', segment, text: event.text, scored };
    }
}

/** Gathers an answer's segments. @throws Refusal where its job failed */
export async function gatherSegments(events: AsyncIterable<AnswerEvent>): Promise<{
  readonly segments: readonly Segment[];
  readonly finish: FinishReason;
  readonly stopText: string | undefined;
  readonly usage: Usage;
}> {
  const segments: Segment[] = [];
  let finish: FinishReason = 'stop',
    stopText: string | undefined,
    usage: Usage | undefined;
  for await (const event of segmentsOf(events))
    if (event.what === 'begin') segments.push(event.segment);
    else if (event.what === 'end') ({ finish, stopText } = event);
    else if (event.what === 'usage') ({ usage } = event);
  return { segments, finish, stopText, usage: usage! }; // it is the last event
}
