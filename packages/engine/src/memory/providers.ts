import { KvError } from '@kv/core';
import { runProvider, signalKey } from '@kv/core/engine';
import type { AnySignal, ProviderEngine, Tensor } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { EventRequest } from './caches.ts';
import type { SequenceContext } from './context.ts';

/** What providers observe of ids that are fed to a copy of a sequence. */
export interface Observing {
  /** Divides each query's weights by the length of what the layer's projections read of its token. */
  readonly over?: 'hidden' | undefined;
  /** Indices of ids whose queries `[H, w, d]` are wanted instead. */
  readonly chosen?: readonly number[];
}
/** The policy whose signals are provided, and the event that asks for them. */
export interface ProviderRequest extends Pick<EventRequest, 'layers' | 'onPass' | 'signal'> {
  readonly policy: CompiledPolicy;
}
/** Feeds ids to a copy, and returns, by layer, the largest weight `[H, n]` that each slot received, or queries. */
type ObserveIds = (ids: readonly number[], what: Observing) => Promise<(layer: number) => Tensor>;

/** What providers read that depends on where caches live. */
type PlacedProviders = Pick<ProviderEngine, 'attentionRows' | 'attentionStretches' | 'hiddenNumbers'>;

/**
 * Runs the providers of the signals that an event's policy reads, for its layers, each distinct pass once, before any
 * layer is compacted.
 *
 * @returns their results, by layer and signal key
 */
export async function runProviders(
  { model, progress, window, signal: whole }: SequenceContext,
  { policy, layers, signal: own }: ProviderRequest,
  observe: ObserveIds,
  placed: (signal: AnySignal) => PlacedProviders,
): Promise<ReadonlyMap<string, unknown>[]> {
  const out = layers.map(() => new Map<string, unknown>()),
    { tokenizer, sidecar } = model,
    aborted = whole && own ? AbortSignal.any([whole, own]) : (whole ?? own);
  for (const signal of policy.needs) {
    if (!signal.provide) continue;
    const passes = new Map<string, ReturnType<ObserveIds>>();
    const observed = async (ids: readonly number[], layer: number, what: Observing): Promise<Tensor> => {
      const key = `${what.over ?? ''} ${what.chosen?.join(',') ?? ''} ${ids.join(',')}`,
        pass = passes.get(key) ?? observe(ids, what);
      passes.set(key, pass);
      try {
        return (await pass)(layer);
      } catch (cause) {
        throw unfit(cause, policy, ids.length);
      }
    };
    const engine: ProviderEngine = {
      ids: progress.text.ids,
      promptLength: progress.promptLength,
      encode: (text) => tokenizer.encode(text, { special: false }).ids,
      decode: (ids) => tokenizer.decode(ids),
      observeMax: (ids, layer, over) => observed(ids, layer, { over }),
      async queriesOf(ids, chosen, layer) {
        expectIndices(chosen, ids.length);
        // kept slots that moved together would be rotated otherwise than those of the event
        const end = progress.length - progress.shift + ids.length;
        if (end > window) throw unfit(beyondContext(window, end), policy, ids.length);
        return {
          queries: await observed(ids, layer, { chosen }),
          positions: Uint32Array.from(chosen, (i) => progress.length + i),
        };
      },
      artifact: (name) => sidecar(name),
      ...placed(signal),
    };
    for (const [i, l] of layers.entries()) out[i].set(signalKey(signal), await runProvider(signal, engine, l, aborted));
  }
  return out;
}

/** Returns the error of a pass whose tokens exceed the context. */
const beyondContext = (window: number, got: number): KvError =>
  new KvError('observeMax', `must fit the model's context of ${window} tokens, got ${got}`);

/**
 * Checks that what the providers of a policy feed after a prompt fits the context with it.
 * @throws KvError naming the policy and the tokens
 */
export function expectFed(
  { model: { tokenizer }, progress, window }: SequenceContext,
  policy: CompiledPolicy,
  ids: readonly number[],
): void {
  const encode = (text: string): readonly number[] => tokenizer.encode(text, { special: false }).ids;
  for (const { feeds } of policy.needs) {
    if (!feeds) continue;
    const { length: more } = feeds({ encode, ids: [...progress.text.ids, ...ids] }),
      end = progress.length - progress.shift + ids.length + more;
    if (end > window) throw unfit(beyondContext(window, end), policy, more);
  }
}

/** @throws KvError unless these are ascending indices of `count` ids */
function expectIndices(chosen: readonly number[], count: number): void {
  if (chosen.length === 0 || !chosen.every((x, i) => Number.isSafeInteger(x) && x > (chosen[i - 1] ?? -1) && x < count))
    throw new KvError(
      'queriesOf',
      `expected ascending indices of ${count} ids, got ${chosen.length === 0 ? 'none' : chosen.join(', ').slice(0, 60)}`,
    );
}

/** Returns the error of a second pass that does not fit the context, in words of who named the policy; any other as it is. */
function unfit(cause: unknown, { methodName }: CompiledPolicy, more: number): unknown {
  if (!KvError.is(cause) || cause.at !== 'observeMax') return cause;
  return new KvError(
    'policy',
    `'${methodName}' reads ${more} tokens once more over the prompt, which together ${cause.message.slice('observeMax: '.length)}: take a shorter prompt, about half the context, or a policy without a second pass`,
  );
}
