import { KvError, LEVELS } from '@kv/core';
import type { AttendHook } from '@kv/core';
import type { Sequence } from '../sequence/sequence.ts';
import type { Slots, StoredState } from '../memory/snapshot.ts';
import type { Rows } from '../cache/encode.ts';
import { BLOCK, rowBytes } from '../cache/form.ts';
import { levelsOf } from '../cache/records.ts';
import { carriedOn, savedTerm } from '../memory/active-policy.ts';
import { plainRows } from '../cache/cache-rows.ts';
import { expectSequence } from '../expect-given.ts';
import { writeSaved, type SavedArray } from './file.ts';
import { MOST } from './manifest.ts';
import type { SavedManifest, SavedLayer, SavedState } from './manifest.ts';

/**
 * Encodes a sequence as a safetensors file: cache, token ids, and what later events read of the past. The loaded
 * sequence continues exactly as this one would. A sequence on a device takes one read, and one more for logits that
 * were not read yet.
 * @throws KvError if nothing has been fed yet, or while another call changes the sequence.
 */
export async function saveCache(sequence: Sequence): Promise<Uint8Array> {
  expectSequence('saveCache', sequence);
  return sequence.alone('saveCache', () => save(sequence));
}

async function save(sequence: Sequence): Promise<Uint8Array> {
  const {
      memory,
      active,
      model: { config, fingerprint },
    } = sequence,
    { policy, budget, last } = active,
    { attends } = carriedOn(active, memory.caches.layers),
    arrays = new Map<string, SavedArray>();
  memory.expectUsable();
  if (memory.progress.length === 0)
    throw new KvError('saveCache', 'expected a sequence with at least one token, got an empty one');
  await sequence.halt(); // steps ahead of their tokens are not part of it
  const logits = await sequence.logits(),
    saved = await memory.snapshot();
  const put = (name: string, numbers: SavedArray | undefined): void => {
    if (numbers) arrays.set(name, numbers);
  };
  const putStates = (list: readonly StoredState[], at: string): readonly SavedState[] =>
    list.map(({ id, spec, columns, data }, i) => {
      put(`${at}states.${i}`, data);
      return {
        id,
        spec: {
          kind: spec.kind,
          rows: spec.rows,
          ...(spec.width !== undefined && { width: spec.width }),
          ...(spec.init !== undefined && { init: spec.init }),
        },
        columns,
      };
    });
  put('tokens', Uint32Array.from(saved.ids));
  put('logits', Float32Array.from(logits.flatMap((row) => [...row])));
  const layers = saved.layers.map(({ slots, ring, accumulated, block, states, lengths, aligned }, l): SavedLayer => {
    const at = `layers.${l}.`,
      kept = last?.kept[l],
      { positions, rotations, biases, rounded } = slots,
      levels = slots.records && levelsOf(slots.records);
    for (const [name, numbers] of Object.entries({
      ...slotArrays(slots),
      positions,
      rotations,
      biases,
      'ring.queries': ring?.queries,
      'ring.positions': ring?.positions,
      'ring.rotations': ring?.rotations,
      accumulated: accumulated?.sums,
      block,
    }))
      put(at + name, numbers);
    put(`${at}kept`, kept && Uint32Array.from(kept.flatMap((slots) => [...slots])));
    return {
      lengths,
      aligned,
      ring: ring ? { window: ring.window, seen: ring.seen } : null,
      accumulated: accumulated?.rows === 'kv' ? 'kv' : accumulated !== undefined,
      block: block !== undefined,
      states: putStates(states, at),
      ...(levels && { levels: LEVELS.map((_, level) => levels.filter((of) => of === level).length) }),
      ...(biases && { biases: true }),
      ...(rounded &&
        rounded.keys + rounded.values > 0 && {
          rounded: rounded.keys + rounded.values < Infinity ? [rounded.keys, rounded.values] : null,
        }),
      event: kept ? { budgets: [...last!.budgets[l]], kept: kept.map((each) => each.length) } : null, // `kept` is of it
    };
  });
  const { carried = [] } = saved;
  carried.forEach((numbers, i) => put(`carried.${i}`, numbers));
  const manifest: SavedManifest = {
    version: versionOf(layers, attends), // only what needs it is unknown to older releases
    // slots at levels have the cache's own form, also where those of other layers were moved
    form: (saved.layers.find(({ slots }) => !slots.records) ?? saved.layers[0]).slots.form,
    model: fingerprint,
    policy: policy.label,
    ...(policy.protectedSpans.length > 0 && { protect: policy.protectedSpans }),
    budget: budget ? Math.min(budget.slots, MOST) : null,
    ...(budget?.bytes !== undefined && { bytes: budget.bytes }),
    ...(budget?.share !== undefined && {
      share: { of: budget.share, asked: budget.requested ?? budget.slots, follows: budget.follows === true },
    }),
    window: memory.caches.context.window,
    tokens: saved.ids.length,
    promptLength: saved.promptLength,
    rotaryLength: saved.rotaryLength,
    decoded: saved.decoded,
    mostSlots: saved.mostSlots,
    shift: saved.layers[0].slots.rotations ? saved.shift : null,
    ...(saved.unaltered < saved.ids.length && { unaltered: saved.unaltered }),
    logits: logits.length,
    layers,
    ...(carried.length > 0 && { carried: carried.map(({ length }) => length) }),
    states: putStates(saved.states, ''),
    ...(attends && { attends: savedTerm(attends) }),
  };
  return writeSaved(manifest, arrays, config);
}

function versionOf(layers: readonly SavedLayer[], attends: AttendHook | undefined): SavedManifest['version'] {
  if (layers.some(({ rounded }) => rounded !== undefined)) return 5;
  if (attends) return 4;
  return layers.some(({ biases }) => biases) ? 3 : 2;
}

/** Returns the arrays of rows as the file names them. */
const slotArrays = ({ keys, values, records }: Slots): Readonly<Record<string, SavedArray>> =>
  records
    ? { levels: levelsOf(records), records: records.bytes }
    : { ...rowArrays('keys', plainRows(keys)), ...rowArrays('values', plainRows(values)) };
const rowArrays = (name: string, { form, codes, scales }: Rows): Readonly<Record<string, SavedArray>> => ({
  [name]: codes,
  ...(rowBytes(form, BLOCK).scales > 0 && { [`${name}.scales`]: scales }),
});
