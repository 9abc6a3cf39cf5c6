import { runProvider, signalKey } from '@kv/core/engine';
import type { AnySignal, ProviderEngine, Tensor } from '@kv/core';
import type { Compiled } from '@kv/core/engine';
import { layerAttention } from '../attention/layer-attention.ts';
import { makeRoom } from '../sequence/room.ts';
import { attentionRows } from './attention-rows.ts';
import type { HostState } from './host-state.ts';
import { notRemembered } from './watch.ts';

/**
 * Runs the providers that a policy's signals bring, for these layers: each distinct pass once. Before any layer is
 * compacted.
 */
export async function provided(
  memory: HostState,
  policy: Compiled,
  layers: readonly number[],
  onPass: () => void,
): Promise<Map<string, unknown>[]> {
  const out = layers.map(() => new Map<string, unknown>());
  for (const signal of policy.needs) {
    if (!signal.provide) continue;
    const engine = providerEngine(memory, signal, onPass);
    for (const [i, l] of layers.entries())
      out[i].set(signalKey(signal), await runProvider(signal, engine, l, memory.signal));
  }
  if (policy.needs.some((signal) => signal.hidden)) memory.hidden?.seen();
  return out;
}

function providerEngine(memory: HostState, signal: AnySignal, onPass: () => void): ProviderEngine {
  const passes = new Map<string, Promise<readonly Observed[]>>();
  const {
    model: { tokenizer, sidecar },
    backend,
    text,
  } = memory;
  return {
    ids: text.ids,
    promptLength: memory.promptLength,
    encode: (said) => tokenizer.encode(said, { special: false }).ids,
    decode: (ids) => tokenizer.decode(ids),
    async observeMax(ids, layer): Promise<Tensor> {
      const key = ids.join(',');
      let pass = passes.get(key);
      if (!pass) {
        onPass();
        pass = observe(memory, ids);
        passes.set(key, pass);
      }
      return backend.ops.from((await pass)[layer]);
    },
    artifact: (name) => sidecar(name),
    attentionRows(layer, visit, from) {
      onPass();
      return attentionRows(memory, layer, visit, from);
    },
    async hiddenNumbers(key, fold) {
      const numbers = memory.hidden?.numbers(key, fold);
      if (!numbers) throw notRemembered(signal);
      return numbers;
    },
  };
}

interface Observed {
  readonly data: Float32Array;
  readonly shape: readonly number[];
}

/** Feeds ids to a copy: the largest weight that each slot present before received from them, `[H, n]` a layer. */
async function observe(memory: HostState, ids: readonly number[]): Promise<readonly Observed[]> {
  const copy = memory.fork(),
    {
      decoder,
      model: { config },
    } = memory,
    { queryHeads: H } = config;
  try {
    makeRoom(copy, ids.length, 'observeMax');
    const positions = Uint32Array.from(ids, (_, i) => memory.length + i),
      out: Observed[] = [];
    let x = decoder.embed(ids);
    for (const [l, { cache }] of copy.layers.entries()) {
      await memory.between({ phase: 'prefill' });
      const n = cache.length,
        { q, k, v } = await decoder.project(l, x, copy.rotations(positions), copy.rotaryLength);
      cache.append(k, v, positions, copy.shift);
      const stride = cache.length,
        columnMax = new Float32Array(H * stride);
      x = await decoder.finish(
        l,
        x,
        await decoder.attend({
          q,
          queryPositions: positions,
          cache,
          counters: memory.counters,
          ...layerAttention(config, l),
          stats: { stride, columnMax },
        }),
      );
      const data = new Float32Array(H * n);
      for (let h = 0; h < H; h++) data.set(columnMax.subarray(h * stride, h * stride + n), h * n);
      out.push({ data, shape: [H, n] });
    }
    return out;
  } finally {
    copy.destroy();
  }
}
