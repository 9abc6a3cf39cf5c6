import { KvError } from '@kv/core';
import { runProvider, signalKey } from '@kv/core/engine';
import type { AnySignal, ProviderEngine, Tensor } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { SequenceContext } from './context.ts';

/**
 * What providers observe of other ids, fed to a copy: returns, by layer, the largest weight `[H, n]` that each slot
 * received; with `over`, each query's weights divided by the length of what the layer's projections read of its token.
 */
type ObserveIds = (ids: readonly number[], over: 'hidden' | undefined) => Promise<(layer: number) => Tensor>;

/** What providers read that depends on where caches live. */
type PlacedProviders = Pick<ProviderEngine, 'attentionRows' | 'attentionStretches' | 'hiddenNumbers'>;

/**
 * Runs the providers of a policy's signals for these layers, each distinct pass once, before any layer is compacted.
 *
 * @returns their results, by layer and signal key
 */
export async function runProviders(
  { model, progress, signal: aborted }: SequenceContext,
  policy: CompiledPolicy,
  layers: readonly number[],
  observe: ObserveIds,
  placed: (signal: AnySignal) => PlacedProviders,
): Promise<ReadonlyMap<string, unknown>[]> {
  const out = layers.map(() => new Map<string, unknown>()),
    { tokenizer, sidecar } = model;
  for (const signal of policy.needs) {
    if (!signal.provide) continue;
    const passes = new Map<string, ReturnType<ObserveIds>>();
    const engine: ProviderEngine = {
      ids: progress.text.ids,
      promptLength: progress.promptLength,
      encode: (text) => tokenizer.encode(text, { special: false }).ids,
      decode: (ids) => tokenizer.decode(ids),
      async observeMax(ids, layer, over) {
        const key = `${over ?? ''} ${ids.join(',')}`,
          pass = passes.get(key) ?? observe(ids, over);
        passes.set(key, pass);
        try {
          return (await pass)(layer);
        } catch (cause) {
          throw unfit(cause, policy, ids.length);
        }
      },
      artifact: (name) => sidecar(name),
      ...placed(signal),
    };
    for (const [i, l] of layers.entries()) out[i].set(signalKey(signal), await runProvider(signal, engine, l, aborted));
  }
  return out;
}

/** Returns the error of a second pass that does not fit the context, in words of who named the policy; any other as it is. */
function unfit(cause: unknown, { methodName }: CompiledPolicy, more: number): unknown {
  if (!KvError.is(cause) || cause.at !== 'observeMax') return cause;
  return new KvError(
    'policy',
    `'${methodName}' reads ${more} tokens once more over the prompt, which together ${cause.message.slice('observeMax: '.length)}: take a shorter prompt, about half the context, or a policy without a second pass`,
  );
}
