import { KvError } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { compile, settleOwn } from '@kv/core/engine';
import { sampler } from '../sampling.ts';
import { policyOf } from '../policy-text.ts';
import type { Model } from '../memory/runtime.ts';
import { yieldToEvents } from '../yield-to-events.ts';
import { decodingPolicy, everyOf } from './policies.ts';
import type { Policies } from './policies.ts';
import { report } from './report.ts';
import type { Report } from './report.ts';
import { freeObservations } from '../sequence/free-observations.ts';
import { Sequence } from '../sequence/sequence.ts';
import { DECODE, GENERATE } from '../options.ts';
import type { Chunk, DecodeOptions, Finish, GenerateOptions } from '../options.ts';
import { StopText } from './stop-text.ts';

/** What `generate` returns. */
export interface GenerateResult {
  /**
   * The generated text. Prompt text and this text, joined, are the decoding of all ids: a word that starts with a space
   * keeps it, and a character that the prompt's ids leave incomplete comes first.
   */
  readonly text: string;
  /** Generated ids. */
  readonly tokens: readonly number[];
  /** What was kept, bytes, counts, times, and how the generation ended. */
  readonly report: Report;
  /** Logits `[vocab]` of the last positions, if the option `logits` asked for them. */
  readonly logits?: readonly Float32Array[];
}
/** A generation in progress: await it for the result, or iterate over it for the tokens as they come. */
export interface Generation extends PromiseLike<GenerateResult>, AsyncIterable<Chunk> {}

/**
 * Generates an answer to a prompt, with a cache that the policy keeps within its budget.
 *
 * Greedy unless `temperature` is given. Stops at `maxNewTokens`, at the model's end token (for a text prompt, see
 * `stopAtEos`), at a stop string, at the end of the model's context, or on an abort, which returns what was generated
 * so far.
 * @throws KvError for an invalid prompt, budget or option, before anything is evicted.
 * @example
 * ```ts
 * const { text, report } = await generate(model, { prompt, policy: 'snapkv | caote | topK', budget: 64 });
 * for await (const { text } of generate(model, { prompt })) process.stdout.write(text);
 * ```
 */
export const generate = (model: Model, options: GenerateOptions): Generation => shared(() => run(model, options));

/**
 * Returns a generation that several readers may await or iterate over at once. The reader furthest ahead requests the
 * next token; generation ends when no reader is left.
 */
function shared(begin: () => AsyncGenerator<Chunk, GenerateResult>): Generation {
  const chunks: Chunk[] = [];
  let generator: AsyncGenerator<Chunk, GenerateResult> | undefined,
    advancing: Promise<void> | undefined,
    end: { readonly generated: Promise<GenerateResult> } | undefined,
    readers = 0;
  const finish = (generated: Promise<GenerateResult>): void => {
    generated.catch(() => {}); // readers get the error themselves
    end ??= { generated };
  };
  /** Produces the next chunk, or the end, for every waiting reader. */
  const advance = async (): Promise<void> => {
    generator ??= begin();
    try {
      const next = await generator.next();
      if (next.done) finish(Promise.resolve(next.value));
      else chunks.push(next.value);
    } catch (error) {
      finish(Promise.reject(error));
    } finally {
      advancing = undefined;
    }
  };
  async function* read(): AsyncGenerator<Chunk, GenerateResult> {
    readers++;
    try {
      for (let at = 0; ; ) {
        if (at < chunks.length) yield chunks[at++];
        else if (end) return await end.generated;
        else await (advancing ??= advance());
      }
    } finally {
      if (--readers === 0 && !end) await leave();
    }
  }
  const leave = async (): Promise<void> => {
    const tokens = chunks.filter(({ token }) => token !== undefined).length,
      left = `${tokens} token${tokens === 1 ? '' : 's'}`;
    finish(Promise.reject(new KvError('generate', `has no result: its reader stopped after ${left}`)));
    await generator?.return(undefined as never); // its end is known already
  };
  let result: Promise<GenerateResult> | undefined;
  const drained = async (): Promise<GenerateResult> => {
    const all = read();
    for (;;) {
      const next = await all.next();
      if (next.done) return next.value;
    }
  };
  return {
    then: (resolve, reject) => (result ??= drained()).then(resolve, reject),
    [Symbol.asyncIterator]: read,
  };
}

async function* run(model: Model, given: GenerateOptions): AsyncGenerator<Chunk, GenerateResult> {
  const options = await withPolicies(settleOwn('generate', GENERATE, given)),
    { policy, budget, decodeBudget, block, logits, backend, signal, certify } = options,
    decodePolicy = decodingPolicy(options);
  const ids = promptIds(model, options);
  const sequence = new Sequence(model, backend);
  try {
    sequence.observer = certify;
    const rows: Float32Array[] = [];
    let finish: Finish;
    const tokens: number[] = [];
    let text = '';
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
        if (logits > 0) rows.push(...(await sequence.logits()));
      };
      await remember();
      finish = yield* decodeWith(
        sequence,
        {
          ...options,
          stopAtEos: options.stopAtEos ?? options.prompt !== undefined,
          ...(logits > 0 && { inFlight: 1 }),
        },
        ({ token, text: more }) => {
          if (token !== undefined) tokens.push(token);
          text += more;
        },
        remember,
      );
    } catch (error) {
      if (!signal?.aborted || error !== signal.reason) throw error;
      finish = 'aborted';
    }
    const last = tokens.at(-1);
    if (logits > 0 && last !== undefined && sequence.memory.slots.fits(1)) {
      await sequence.step(last);
      rows.push(...(await sequence.logits()));
    }
    return {
      text,
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
  return yield* decodeWith(
    sequence,
    settleOwn('decode', DECODE, options),
    () => {},
    async () => {},
  );
}

async function* decodeWith(
  sequence: Sequence,
  options: ResolvedOptions<typeof DECODE>,
  onChunk: (chunk: Chunk) => void,
  onStep: () => Promise<void>,
): AsyncGenerator<Chunk, Finish> {
  const { maxNewTokens, stop = [], signal, temperature, topP, seed, stopAtEos = true, inFlight = 2 } = options;
  const every = options.every ?? everyOf(sequence.active.policy);
  if (every === undefined && options.remember !== true) freeObservations(sequence);
  const { config } = sequence.model;
  const drawing = { temperature, topP, seed },
    draw = temperature === 0 ? undefined : { ...drawing, pick: sampler(drawing) };
  const stream = sequence.progress.text.decoder(),
    stops = new StopText(stop);
  let finish: Finish = 'length';
  try {
    for (let made = 0; made < maxNewTokens; made++) {
      await yieldToEvents(signal);
      if (signal?.aborted) {
        finish = 'aborted';
        break;
      }
      const token = await sequence.next(draw, { ahead: Math.min(inFlight, maxNewTokens - made) - 1, every });
      if (stopAtEos && config.eosIds.includes(token)) {
        finish = 'eos';
        break;
      }
      const chunk = { token, text: stops.push(stream.push(token)) };
      onChunk(chunk);
      yield chunk;
      if (stops.stopped) return 'stop';
      if (made + 1 === maxNewTokens) break;
      if (!sequence.memory.slots.fits(1)) {
        finish = 'context';
        break;
      }
      await sequence.step(token, every);
      await onStep();
    }
  } finally {
    await sequence.halt();
  }
  const rest = stops.end(stream.end());
  if (rest !== '') {
    const chunk = { text: rest };
    onChunk(chunk);
    yield chunk;
  }
  return finish;
}

function promptIds(model: Model, { prompt, ids }: Pick<GenerateOptions, 'prompt' | 'ids'>): readonly number[] {
  if ((prompt === undefined) === (ids === undefined))
    throw new KvError('prompt', 'expected either prompt (text) or ids, and not both');
  if (ids !== undefined) {
    for (const id of ids)
      if (!(Number.isInteger(id) && id >= 0 && id < model.config.vocab))
        throw new KvError('ids', `must be whole numbers below ${model.config.vocab}, got ${id}`);
    return ids;
  }
  return model.tokenizer.encode(prompt!).ids; // one of the two is there
}
