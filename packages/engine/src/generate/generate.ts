import { KvError } from '@kv/core';
import { expectRead, renderedIds, roleRanges, templateMessages } from '@kv/checkpoints';
import type { ResolvedOptions } from '@kv/core';
import { compile, settleOwn } from '@kv/core/engine';
import { expectBias } from '../sampling/edits.ts';
import { samplingOf } from '../sampling/options.ts';
import { Sampler } from '../sampling/sampler.ts';
import { policyOf } from '../policy-text.ts';
import { expectModel, expectSequence } from '../expect-given.ts';
import type { Model } from '../memory/runtime.ts';
import { yieldToEvents } from '../yield-to-events.ts';
import { policySizes } from '../cache/slot-sizes.ts';
import { decodingPolicy, everyOf, expectKept } from './policies.ts';
import type { Policies } from './policies.ts';
import { givenGrammar } from './answer-grammar.ts';
import { generation } from './generation.ts';
import type { Generation } from './generation.ts';
import { missingParts, protectedSpans, type ProtectedPrompt } from './protect.ts';
import { report } from './report.ts';
import type { Report } from './report.ts';
import { freeObservations } from '../sequence/free-observations.ts';
import { Sequence } from '../sequence/sequence.ts';
import { DECODE, GENERATE } from '../options.ts';
import type { Chunk, DecodeOptions, Finish, GenerateOptions } from '../options.ts';
import { StopText } from './stop-text.ts';
import { answerSplitter, turnAnswer } from './turn-answer.ts';

/** What `generate` returns. */
export interface GenerateResult {
  /**
   * The generated text. Prompt text and this text, joined, are the decoding of all ids: a word that starts with a space
   * keeps it, and a character that the prompt's ids leave incomplete comes first. Of an answer to messages it is the text
   * for the user.
   */
  readonly text: string;
  /** The model's reasoning before the text; absent for none. */
  readonly reasoning?: string;
  /** Generated ids. */
  readonly tokens: readonly number[];
  /** What was kept, bytes, counts, times, and how the generation ended. */
  readonly report: Report;
  /** Logits `[vocab]` of the last positions, if the option `logits` asked for them. */
  readonly logits?: readonly Float32Array[];
}
/**
 * Generates an answer to a prompt, with a cache that the policy keeps within its budget.
 *
 * Greedy unless `temperature` is given. Stops at `maxNewTokens`, at the model's end token (for a text prompt, see
 * `stopAtEos`), at a stop string, at the end of the model's context, or on an abort, which returns what was generated
 * so far. With a `schema` the answer is JSON that fits it if the report's `finish` is 'eos'.
 * @throws KvError for an invalid prompt, budget, schema or option, before anything is evicted.
 * @example
 * ```ts
 * const { text, report } = await generate(model, { prompt, policy: 'outstandingSentences', budget: 64 });
 * for await (const { text } of generate(model, { prompt })) process.stdout.write(text);
 * ```
 */
export const generate = (model: Model, options: GenerateOptions): Generation<GenerateResult> =>
  generation(() => run(model, options));

async function* run(model: Model, given: GenerateOptions): AsyncGenerator<Chunk, GenerateResult> {
  expectModel('generate', model);
  const options = await withPolicies(settleOwn('generate', GENERATE, given)),
    { policy, budget, decodeBudget, protect, block, logits, backend, cache, signal, certify } = options,
    turn = options.turn ?? options.messages !== undefined,
    decodePolicy = decodingPolicy(options, (policy) => policySizes(model.config, cache ?? model.cacheForm, policy));
  if (budget !== undefined && decodePolicy === undefined) expectKept(policy, budget);
  const prompt = promptOf(model, options),
    { ids } = prompt,
    grammar = await givenGrammar(model, options, turn ? ids : undefined),
    spans = protect ? protectedSpans(protect, prompt) : [];
  expectBias(options.logitBias, model.config.vocab);
  const sequence = new Sequence(model, backend, { cache });
  try {
    sequence.observer = certify;
    sequence.stats.notes.push(...missingParts(protect ?? [], prompt));
    if (spans.length > 0 && [policy, decodePolicy].some((each) => each && compile(each).evicts))
      sequence.protect(spans);
    const rows: Float32Array[] = [];
    let finish: Finish;
    const tokens: number[] = [];
    let text = '',
      reasoning = '';
    try {
      await sequence.prefill(ids, {
        ...(policy && { policy }),
        policies: decodePolicy ? [decodePolicy] : [],
        budget,
        block,
        rows: Math.max(1, logits),
        forget:
          !decodePolicy &&
          options.remember !== true &&
          (options.every ?? (policy && everyOf(compile(policy)))) === undefined,
        signal,
      });
      if (decodePolicy) sequence.decodeUnder(decodePolicy, decodeBudget);
      const remember = async (): Promise<void> => {
        if (logits === 0) return;
        rows.push(...(await sequence.logits()));
        rows.splice(0, rows.length - logits);
      };
      await remember();
      finish = yield* decodeWith(
        sequence,
        {
          ...options,
          ...{ grammar, turn },
          stopAtEos: options.stopAtEos ?? options.ids === undefined,
          ...(logits > 0 && { inFlight: 1 }),
        },
        async (token, every) => {
          await sequence.step(token, every);
          await remember();
        },
        ({ token, text: more, reasoning: thought = '' }) => {
          if (token !== undefined) tokens.push(token);
          text += more;
          reasoning += thought;
        },
      );
    } catch (error) {
      if (!signal?.aborted || error !== signal.reason) throw error;
      finish = 'aborted';
    }
    const last = tokens.at(-1);
    if (logits > 0 && last !== undefined && sequence.fits(1)) {
      await sequence.step(last);
      rows.push(...(await sequence.logits()));
    }
    return {
      text,
      ...(reasoning !== '' && { reasoning }),
      tokens,
      report: report(sequence, finish, options),
      ...(logits > 0 && { logits: rows.slice(-logits) }),
    };
  } finally {
    sequence.destroy();
  }
}

/** Options of `generate` with their policies resolved from text. */
type Made = Omit<ResolvedOptions<typeof GENERATE>, 'policy' | 'decodePolicy'> & Policies;
async function withPolicies({ policy, decodePolicy, ...rest }: ResolvedOptions<typeof GENERATE>): Promise<Made> {
  return {
    ...rest,
    ...(policy !== undefined && { policy: await policyOf(policy) }),
    ...(decodePolicy !== undefined && { decodePolicy: await policyOf(decodePolicy) }),
  };
}

/**
 * Generates from a prefilled sequence. The last token is yielded but not fed.
 * @param sequence holds the prompt; its last logits choose the first token
 * @returns why the generation ended
 */
export async function* decode(sequence: Sequence, options: DecodeOptions = {}): AsyncGenerator<Chunk, Finish> {
  expectSequence('decode', sequence);
  return yield* decodeWith(
    sequence,
    settleOwn('decode', DECODE, options),
    (token, every) => sequence.step(token, every),
    () => {},
  );
}

/** `decode`, with the step that feeds a token. */
export async function* decodeWith(
  sequence: Sequence,
  options: ResolvedOptions<typeof DECODE>,
  step: (token: number, every: number | undefined) => Promise<void>,
  onChunk: (chunk: Chunk) => void,
): AsyncGenerator<Chunk, Finish> {
  const { maxNewTokens, stop = [], signal, stopAtEos = true, inFlight = 2, grammar, turn } = options;
  const every = options.every ?? everyOf(sequence.active.policy);
  if (every === undefined && options.remember !== true) freeObservations(sequence);
  const { config } = sequence.model;
  const sampler = new Sampler(samplingOf(options), { prompt: sequence.progress.text.ids, grammar, config });
  const { text: before } = sequence.progress,
    answer = turn ? turnAnswer(sequence.model, before.ids) : undefined,
    stream = before.decoder(answer && { special: answer.marks }),
    split = answerSplitter(answer?.reader()),
    stops = new StopText(stop);
  let finish: Finish = 'length';
  try {
    for (let made = 0; made < maxNewTokens; made++) {
      await yieldToEvents(signal);
      if (signal?.aborted) {
        finish = 'aborted';
        break;
      }
      const token = await sequence.next(sampler, { ahead: Math.min(inFlight, maxNewTokens - made) - 1, every });
      if ((stopAtEos || grammar) && config.eosIds.includes(token)) {
        finish = 'eos';
        break;
      }
      sampler.accept(token);
      const chunk = { token, ...split(stops.push(stream.push(token))) };
      onChunk(chunk);
      yield chunk;
      if (stops.stopped) {
        finish = 'stop';
        break;
      }
      if (sampler.complete) {
        finish = 'eos';
        break;
      }
      if (made + 1 === maxNewTokens) break;
      if (!sequence.fits(1)) {
        finish = 'context';
        break;
      }
      await step(token, every);
    }
  } finally {
    sampler.destroy();
    await sequence.halt();
  }
  const rest = split(stops.end(stream.end()), true);
  if (rest.text !== '' || rest.reasoning !== undefined) {
    onChunk(rest);
    yield rest;
  }
  return finish;
}

type Prompt = Pick<GenerateOptions, 'prompt' | 'ids' | 'messages' | 'chatTemplateKwargs'>;

function promptOf(
  { name, tokenizer, config, chatTemplate }: Model,
  { prompt, ids, messages, chatTemplateKwargs: variables }: Prompt,
): ProtectedPrompt {
  if ([prompt, ids, messages].filter((given) => given !== undefined).length !== 1)
    throw new KvError('prompt', 'expected exactly one of prompt (text), messages (a conversation) and ids');
  if (messages !== undefined) {
    const template = chatTemplate?.();
    if (template === undefined) throw new KvError('chat', `expected a model with a chat template, got ${name}`);
    expectRead(template, variables);
    const read = templateMessages(template, messages),
      rendered = template.render(read, { variables });
    return {
      ids: renderedIds(tokenizer, rendered),
      tokenizer,
      conversation: {
        rendered,
        get ranges() {
          return roleRanges((others) => template(others, { variables }), read, rendered.text, false);
        },
      },
    };
  }
  if (variables)
    throw new KvError('chatTemplateKwargs', 'expected messages, which the chat template renders, got a prompt or ids');
  if (ids !== undefined) {
    for (const id of ids)
      if (!(Number.isInteger(id) && id >= 0 && id < config.vocab))
        throw new KvError('ids', `must be whole numbers below ${config.vocab}, got ${id}`);
    return { ids, tokenizer };
  }
  return { ids: tokenizer.encode(prompt!).ids, tokenizer }; // one of the three is there
}
