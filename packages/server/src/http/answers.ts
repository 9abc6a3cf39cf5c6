import { Readable } from 'node:stream';
import { slotsIn } from '@kv/core/engine';
import { sumOf } from '@kv/core/shared';
import { writeExactJson } from '@kv/models';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Limits } from '../options.ts';
import type { AnswerShape, AnswerShapes } from '../protocol/answer-shape.ts';
import type { Ask, AskTerms } from '../protocol/ask.ts';
import { held, readPrompts } from '../protocol/prompt.ts';
import type { PromptReading, PromptTokens } from '../protocol/prompt.ts';
import type { Answer, Protocol } from '../protocol/protocol.ts';
import { expectHeld, expectModel, newTokensOf, sequencePolicyOf } from '../protocol/request.ts';
import type { Defaults } from '../protocol/request.ts';
import { answerMessages } from '../protocol/turns.ts';
import { drawnBy, expectTokens } from '../protocol/sampling.ts';
import { longestRead, tooLong } from '../protocol/text-reader.ts';
import { toldHeader, toldOf } from '../protocol/told.ts';
import type { PromptLimits } from '../protocol/text-reader.ts';
import { answerEvents } from '../run/answer-event.ts';
import type { AnswerEvent } from '../run/answer-event.ts';
import type { JobEvent, PromptUsage, SequenceRequest, Usage } from '../run/job.ts';
import type { Scheduler } from '../run/scheduler.ts';
import { goneSignal } from './disconnect-signal.ts';

/** What answers are made with. */
export interface AnswerServices extends PromptReading {
  /** The name of the model. */
  readonly name: string;
  readonly scheduler: Scheduler;
  readonly defaults: Defaults;
  readonly limits: Pick<Limits, 'maxNewTokens'>;
  readonly maxPromptTokens: number;
  readonly shapes: AnswerShapes;
  /** Called with the seconds from a request to its first token. */
  firstToken(seconds: number): void;
  /** Called when nothing is left to write, or its reader is too slow. */
  waitForReader(reply: FastifyReply): void;
  /** Drops the text of a request. */
  letGo(request: FastifyRequest): void;
}

/** A request that was read: its prompts are token ids, and its text is gone. */
interface ReadRequest {
  readonly asked: AskTerms;
  readonly requests: readonly SequenceRequest[];
  readonly echoed: readonly string[];
  readonly reader: AnswerShape['reader'];
}

/** What of a request is its conversation. */
export type AskedConversation = Pick<Ask, 'model' | 'prompt' | 'tools' | 'toolChoice' | 'names'>;

/** Of answers that may be any text. */
const NO_SHAPE: AnswerShape = { marks: [], ends: [] };

/** Answers requests of any protocol. */
export class Answers {
  readonly #parts: AnswerServices;
  constructor(parts: AnswerServices) {
    this.#parts = parts;
  }

  /** Answers a request, whole or as a stream. @throws Refusal */
  async answer(protocol: Protocol, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { scheduler, model, name, firstToken, waitForReader } = this.#parts,
      started = performance.now(),
      { asked, requests, ...begin } = await this.#read(protocol, request, reply),
      { tokenizer } = model,
      [{ sequencePolicy }] = requests,
      { events, read } = await begun(scheduler.submit(requests));
    firstToken((performance.now() - started) / 1000);
    const answer: Answer = {
      asked,
      events: answerEvents({ tokenizer, n: asked.n, ...begin }, events),
      choices: requests.length * asked.n,
      model: name,
      tokenizer,
      policy: sequencePolicy.policy?.label || 'full',
      budget: sequencePolicy.budget,
      read: totalOf(read),
      protectedTokens: requests.reduce((sum, { ids, protect }) => sum + slotsIn(protect?.(ids) ?? []), 0),
    };
    if (!asked.stream) {
      let usage: Usage | undefined;
      const heard = heardOf(answer.events, (said) => (usage = said)),
        body = await protocol.whole({ ...answer, events: heard });
      reply.headers(toldHeader(toldOf(answer, usage))).type('application/json; charset=utf-8');
      reply.serializer(writeExactJson); // arguments of calls are as they were written
      return body;
    }
    reply.headers(toldHeader(toldOf(answer)));
    const frames = Readable.from(protocol.frames(answer), { objectMode: false, highWaterMark: 4096 });
    frames.once('end', () => waitForReader(reply));
    return reply.header('cache-control', 'no-store').type('text/event-stream; charset=utf-8').send(frames);
  }

  /** Counts the tokens of a conversation that nothing answers. @throws Refusal */
  async count(asked: AskedConversation, request: FastifyRequest, reply: FastifyReply): Promise<number> {
    const { name, shapes, letGo, maxPromptTokens } = this.#parts;
    expectModel(asked.model, name);
    shapes.expectTools(asked);
    const limits = { ...longestRead(maxPromptTokens), signal: goneSignal(request, reply) },
      [{ ids }] = await readPrompts(asked, this.#parts, limits).finally(() => letGo(request));
    return ids.length;
  }

  /** Reads a request; its prompts are tokenized only after everything else about it was validated. */
  async #read(protocol: Protocol, request: FastifyRequest, reply: FastifyReply): Promise<ReadRequest> {
    const { model, name, scheduler, defaults, limits, maxPromptTokens, shapes, letGo, waitForReader } = this.#parts,
      { prompt, ...asked } = await protocol.ask(request.body);
    expectModel(asked.model, name);
    shapes.expectTools(asked);
    const { of: policy, ...sequencePolicy } = sequencePolicyOf(asked, defaults, model),
      { maxPositions } = model.config,
      signal = goneSignal(request, reply),
      most = limits.maxNewTokens ?? maxPositions,
      maxNewTokens = newTokensOf(asked, most),
      evicts = sequencePolicy.policy?.evicts === true; // a conversation may be longer than the context
    expectTokens(asked.sampling, model.config.vocab);
    scheduler.expectRoom();
    const bounds = evicts
      ? longestRead(maxPromptTokens)
      : { tokens: maxPositions, of: `the model's context of ${maxPositions} tokens` };
    // releases the body's reservation before waiting for anything else
    const { prompts, shape } = await this.#prompts({ prompt, ...asked }, { ...bounds, signal }).finally(() =>
      letGo(request),
    );
    const schemaBytes = held(asked.tools) + held(asked.form) + held(asked.own),
      { reader, ...shaped } = shape,
      { n, stream: streamed, stop, sampling, logprobs } = asked,
      echoed = prompts.map((read) => (asked.echo ? this.#textOf(read) : ''));
    const requests = prompts.map(({ ids, stop: lineEnds = [], turns, notes, protect }, i): SequenceRequest => {
      const room = evicts ? most : maxPositions - ids.length;
      if (room === 0) throw tooLong(ids.length, `the model's context of ${maxPositions} tokens and leave room`);
      if (protect) expectHeld(sequencePolicy, protect(ids) ?? [], ids.length, asked.protect !== undefined);
      return {
        ids,
        notes,
        ...(sequencePolicy.policy?.evicts && protect && { protect }),
        turns,
        answers: (text) => answerMessages(text, reader?.()),
        policy,
        sequencePolicy,
        limits: {
          ...drawnBy(sampling, defaults.sampling),
          seed: sampling.seed + i * n, // of the first of the prompt's answers
          maxNewTokens: Math.min(maxNewTokens, room),
          // what has a form ends by itself
          stop: shaped.grammar ? stop : [...stop, ...lineEnds],
          stopAtEos: true,
          logprobs,
          ...shaped,
        },
        n,
        schemaBytes: i === 0 ? schemaBytes : 0,
        ...(asked.echo && logprobs !== undefined && { scorePrompt: logprobs }),
        offset: echoed[i].length,
        streamed,
        signal,
        unread: () => waitForReader(reply),
      };
    });
    return { asked, requests, echoed, reader };
  }

  /** Tokenizes the prompts of a request, and compiles what their answers must look like. */
  async #prompts(
    ask: Ask,
    limits: PromptLimits,
  ): Promise<{ readonly prompts: readonly PromptTokens[]; readonly shape: AnswerShape }> {
    const prompts = await readPrompts(ask, this.#parts, limits),
      shape = 'messages' in ask.prompt ? await this.#parts.shapes.of(ask, prompts[0].end ?? '') : NO_SHAPE;
    return { prompts, shape };
  }

  /** The text of a prompt as answers begin with it: an incomplete character at the end of ids begins the answer. */
  #textOf({ ids, text }: PromptTokens): string {
    const decoder = this.#parts.model.tokenizer.streamDecoder();
    return text ?? ids.map((id) => decoder.push(id)).join('');
  }
}

/**
 * Waits for what is first said of an answer, so that an early failure is thrown here. Returns all events from then on, and
 * what the prompts were read from that had begun by then.
 */
async function begun(
  events: AsyncIterable<JobEvent>,
): Promise<{ readonly events: AsyncIterable<JobEvent>; readonly read: readonly PromptUsage[] }> {
  const all = events[Symbol.asyncIterator](),
    read: PromptUsage[] = [];
  let next = await all.next();
  for (; !next.done && next.value.what === 'begin'; next = await all.next()) read.push(next.value.usage);
  return {
    read,
    events: (async function* () {
      for (; !next.done; next = await all.next()) yield next.value;
    })(),
  };
}

/** Returns what several prompts are read from together. */
const totalOf = (all: readonly PromptUsage[]): PromptUsage => ({
  promptTokens: sumOf(all.map(({ promptTokens }) => promptTokens)),
  tokensReused: sumOf(all.map(({ tokensReused }) => tokensReused)),
  tokensRead: sumOf(all.map(({ tokensRead }) => tokensRead)),
});

/** Yields events, and tells of the usage. */
async function* heardOf(events: AsyncIterable<AnswerEvent>, tell: (usage: Usage) => void): AsyncGenerator<AnswerEvent> {
  for await (const event of events) {
    if (event.what === 'usage') tell(event.usage);
    yield event;
  }
}
