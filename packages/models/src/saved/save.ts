import { KvError } from '@kv/core';
import type { StoredState } from '../host/store.ts';
import { memoryOf, type Sequence } from '../host/sequence.ts';
import { writeSaved } from './file.ts';
import type { Manifest, SavedLayer, SavedState } from './manifest.ts';

/**
 * A sequence as the bytes of a safetensors file: cache, token ids, and what later events read of the past. What is loaded from it goes on exactly as the sequence would.
 * @throws KvError if nothing has been fed yet.
 */
export async function saveCache(sequence: Sequence): Promise<Uint8Array> {
  const memory = memoryOf(sequence), { model: { config, fingerprint } } = memory, arrays = new Map<string, Float32Array | Uint32Array>();
  if (memory.length === 0) throw new KvError('saveCache', 'expected a sequence with at least one token, got an empty one');
  const put = (name: string, numbers: Float32Array | Uint32Array | undefined): void => { if (numbers) arrays.set(name, numbers); };
  const putStates = (list: readonly StoredState[], at: string): readonly SavedState[] => list.map(({ id, spec, columns, data }, i) => {
    put(`${at}states.${i}`, data);
    return { id, spec: { kind: spec.kind, rows: spec.rows, ...(spec.width !== undefined && { width: spec.width }), ...(spec.init !== undefined && { init: spec.init }) }, columns };
  });
  put('tokens', Uint32Array.from(memory.text.ids));
  put('logits', Float32Array.from(sequence.logits.flatMap((row) => [...row])));
  const layers = memory.layers.map(({ cache, ring, accumulated, block, states, aligned }, l): SavedLayer => {
    const at = `layers.${l}.`, past = ring?.saved(), kept = sequence.lastKept?.[l];
    for (const [name, numbers] of Object.entries({ ...packed(cache.slots()), 'ring.queries': past?.queries, 'ring.positions': past?.positions, 'ring.rotations': past?.rotations })) put(at + name, numbers);
    put(`${at}accumulated`, accumulated?.dense(cache.length));
    put(`${at}block`, block?.dense(cache.length));
    put(`${at}kept`, kept && Uint32Array.from(kept.flat()));
    return {
      lengths: [...cache.lengths], aligned, ring: ring && past ? { window: ring.window, seen: past.seen } : null, accumulated: accumulated !== undefined, block: block !== undefined,
      states: putStates(states.saved(), at), event: kept ? { budgets: [...sequence.lastBudgets![l]!], kept: kept.map((slots) => slots.length) } : null,
    };
  });
  const manifest: Manifest = {
    version: 1, model: fingerprint, policy: sequence.policy.label, budget: memory.budget ?? null, tokens: memory.length, promptLength: memory.promptLength, rotaryLength: memory.rotaryLength, decoded: memory.decoded,
    mostSlots: memory.mostSlots, shift: memory.layers[0]!.cache.rotations ? memory.shift : null, logits: sequence.logits.length, layers, states: putStates(memory.shared.saved(), ''),
  };
  return writeSaved(manifest, arrays, config);
}

const packed = ({ keys, values, positions, rotations }: { readonly keys: Float32Array; readonly values: Float32Array; readonly positions: Uint32Array; readonly rotations?: Uint32Array | undefined }): Record<string, Float32Array | Uint32Array | undefined> =>
  ({ keys, values, positions, rotations });
