import { id, KvError } from '@kv/core';
import { allowanceOf, compile, isState, settleOwn, showValue, slotState, union, withProtected } from '@kv/core/engine';
import type { AttendHook, OptionValues } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { fileSource, expectNamed, slotHeads, type KvHeads } from '@kv/checkpoints';
import { expectModel } from '../expect-given.ts';
import { expectKept, noEffect } from '../generate/policies.ts';
import { policyOf } from '../policy-text.ts';
import { LOAD_CACHE } from '../options.ts';
import type { Rows } from '../cache/encode.ts';
import { storedForms, unmovedForm, type RowForm } from '../cache/form.ts';
import { levelOf, recordsOf } from '../cache/records.ts';
import type { EarlierRounding } from '../cache/cache-rows.ts';
import { storageOfRecords } from '../cache/storage.ts';
import { Outputs } from '../sequence/outputs.ts';
import { Sequence } from '../sequence/sequence.ts';
import { notRemembered, observationPlan, type ObservationPlan } from '../memory/observation-plan.ts';
import { activePolicyOf, sameTerm, type EventBudget, type EventResult } from '../memory/active-policy.ts';
import { resize, sizesAt } from '../memory/budget-sizes.ts';
import type { Model } from '../memory/runtime.ts';
import type { LayerSnapshot, Slots, Snapshot, StoredState } from '../memory/snapshot.ts';
import { checkCounts, checkNumbers } from './checks.ts';
import { readSaved, type SavedArrays } from './file.ts';
import type { SavedManifest, SavedLayer, SavedState } from './manifest.ts';

/** Options of `loadCache`. */
export interface LoadCacheOptions extends OptionValues<typeof LOAD_CACHE> {}

/**
 * Loads a sequence from the bytes of `saveCache`, or from a file of them.
 * @param from bytes, or the path of a file
 * @throws KvError for another model's cache, a policy that reads what was not recorded, and invalid bytes
 */
export async function loadCache(
  model: Model,
  from: Uint8Array | string,
  options: LoadCacheOptions = {},
): Promise<Sequence> {
  expectModel('loadCache', model);
  if (typeof from !== 'string' && !(from instanceof Uint8Array))
    throw new KvError(
      'loadCache',
      `expected the bytes of saveCache, or the path of a file of them, got ${showValue(from)}`,
    );
  const { policy, budget, backend, cache, window, mostOperations } = settleOwn('loadCache', LOAD_CACHE, options);
  const where = typeof from === 'string' ? from : 'saved cache',
    { config, name } = model;
  const { manifest, arrays } = readSaved(typeof from === 'string' ? await readFile(from) : from, where, (given) => {
    expectNamed(where, model, given.model, `a cache of ${name}`);
    checkCounts(given, config, where);
    return config;
  });
  checkNumbers(manifest, arrays, config, where);
  // a sequence that had no policy has none to be found
  const asked = manifest.policy === '' ? undefined : manifest.policy,
    given = typeof policy !== 'function' ? policy : asked && (await policy(asked)),
    found = given === undefined ? undefined : await policyOf(given),
    { protect = [] } = manifest,
    compiled = remembered(withProtected(compile(found ?? id), protect), manifest),
    attends = await termIn(manifest, found && compiled, where);
  if (budget !== undefined) expectKept(found, budget);
  const logits = Array.from({ length: manifest.logits }, (_, i) =>
    (arrays.get('logits') as Float32Array).slice(i * config.vocab, (i + 1) * config.vocab),
  );
  const memory = model.memory({
    backend,
    form: cache ?? model.cacheForms.find((form) => form === unmovedForm(manifest.form)),
    window: window ?? manifest.window,
    mostOperations,
  });
  try {
    memory.restore(snapshotOf(manifest, arrays, slotHeads(config)));
    // its later tokens have seen other numbers than it holds now
    if (memory.cache.form !== unmovedForm(manifest.form)) memory.progress.noteAltered(0);
    if (!memory.slots.holds(protect))
      throw new KvError(where, 'expected protected positions that the cache holds, got some that it does not');
    const { tokens } = manifest,
      last = lastEvent(manifest, arrays, levelOf(memory.cache.form)),
      next = { policy: compiled, ...(attends && { attends }) },
      sizes = sizesAt(memory.caches, next, tokens),
      before = savedBudget(manifest),
      // bytes are slots again once a policy evicts to them
      given = budget ?? (compiled.evicts && before?.bytes !== undefined ? { bytes: before.bytes } : undefined),
      allowance =
        given === undefined
          ? before && resize(before, sizesAt(memory.caches, next, tokens, unmovedForm(manifest.form)), sizes)
          : allowanceOf(compiled, given, tokens, { sizes }),
      active = activePolicyOf(compiled, allowance, { ...(last && { last }), ...(attends && { attends }) });
    const notes =
      budget !== undefined && !compiled.evicts
        ? [noEffect(found, budget)]
        : found === undefined && manifest.budget !== null
          ? [
              `loaded without a policy: nothing is evicted from now on; ${manifest.policy} kept it at ${manifest.budget} slots`,
            ]
          : [];
    return new Sequence(model, undefined, { start: { memory, active, outputs: new Outputs(logits), notes } });
  } catch (error) {
    memory.destroy();
    throw error;
  }
}

/** Returns the budget that the sequence had. */
const savedBudget = ({ budget, bytes, share }: SavedManifest): EventBudget | undefined =>
  budget === null
    ? undefined
    : {
        slots: budget,
        ...(bytes !== undefined && { bytes }),
        ...(share && { share: share.of, requested: share.asked, ...(share.follows && { follows: true }) }),
      };

/**
 * Returns what the last event allowed and kept; undefined if a layer has seen none.
 * @param least the level of the form that the cache is loaded in: no slot is stored more finely
 */
function lastEvent({ form, layers }: SavedManifest, arrays: SavedArrays, least: number): EventResult | undefined {
  const events = layers.flatMap(({ event }) => event ?? []);
  if (events.length < layers.length) return undefined;
  // the file holds all that its manifest names
  const whole = (l: number, name: string): Uint32Array => arrays.get(`layers.${l}.${name}`) as Uint32Array,
    kept = events.map((event, l) => split(whole(l, 'kept'), event.kept)),
    own = levelOf(form);
  const levels = kept.map((heads, l) => {
    const { lengths, levels: some } = layers[l],
      positions = split(whole(l, 'positions'), lengths),
      of = some && split(whole(l, 'levels'), lengths);
    return heads.map((head, g) => {
      const at = new Map(Array.from(positions[g], (position, i) => [position, of?.[g][i]]));
      return Uint8Array.from(head, (position) => Math.max(least, at.get(position) ?? own));
    });
  });
  return {
    budgets: events.map(({ budgets }) => budgets),
    kept,
    ...(layers.some(({ levels }) => levels) && { levels }),
    notes: [],
  };
}

function snapshotOf(manifest: SavedManifest, arrays: SavedArrays, heads: readonly KvHeads[]): Snapshot {
  const floats = (name: string): Float32Array => arrays.get(name) as Float32Array,
    whole = (name: string): Uint32Array => arrays.get(name) as Uint32Array;
  const bytes = (name: string): Uint8Array => {
    const array = arrays.get(name);
    return array ? new Uint8Array(array.buffer, array.byteOffset, array.byteLength) : new Uint8Array(0);
  };
  const rows = (form: RowForm, name: string): Rows => ({ form, codes: bytes(name), scales: bytes(`${name}.scales`) });
  const slots = ({ levels, rounded: bounds }: SavedLayer, at: string, headDim: number): Slots => {
    const { form } = manifest,
      [positions, rotations] = [whole(`${at}positions`), whole(`${at}rotations`)],
      biases = arrays.get(`${at}biases`) as Float32Array | undefined,
      rounded = bounds === undefined ? undefined : roundingOf(bounds);
    if (!levels)
      return {
        form,
        keys: rows(storedForms[form].keys, `${at}keys`),
        values: rows(storedForms[form].values, `${at}values`),
        positions,
        rotations,
        biases,
        rounded,
      };
    const records = recordsOf(whole(`${at}levels`), bytes(`${at}records`), headDim),
      shape = { heads: 1, headDim, capacity: positions.length, form: unmovedForm(form) };
    return { ...storageOfRecords(shape, records, positions, false), rotations, biases, rounded };
  };
  const states = (list: readonly SavedState[], at: string): readonly StoredState[] =>
    list.map((state, i) => ({ ...state, data: floats(`${at}states.${i}`) }));
  const { promptLength, rotaryLength, decoded, mostSlots, shift } = manifest;
  return {
    ids: [...whole('tokens')],
    promptLength,
    rotaryLength,
    decoded,
    mostSlots,
    shift: shift ?? 0,
    unaltered: manifest.unaltered ?? manifest.tokens,
    carried: (manifest.carried ?? []).map((_, i) => floats(`carried.${i}`)),
    states: states(manifest.states, ''),
    layers: manifest.layers.map((layer, l): LayerSnapshot => {
      const { lengths, aligned, ring, accumulated, block, states: own } = layer,
        at = `layers.${l}.`;
      return {
        lengths,
        aligned,
        slots: slots(layer, at, heads[l].headDim),
        ...(ring && {
          ring: {
            ...ring,
            queries: floats(`${at}ring.queries`),
            positions: whole(`${at}ring.positions`),
            rotations: whole(`${at}ring.rotations`),
          },
        }),
        ...(accumulated && {
          accumulated: { rows: accumulated === 'kv' ? accumulated : 'query', sums: floats(`${at}accumulated`) },
        }),
        ...(block && { block: floats(`${at}block`) }),
        states: states(own, at),
      };
    }),
  };
}

/** Returns the bounds of a file. */
const roundingOf = (bounds: NonNullable<SavedLayer['rounded']> | null): EarlierRounding =>
  bounds ? { keys: bounds[0], values: bounds[1] } : { keys: Infinity, values: Infinity };

/**
 * Returns the hook that goes on adding what slots were folded into: that of the policy, or, where none is given, of the
 * policy that the sequence had; undefined where nothing was folded.
 * @throws KvError for a policy without it
 */
async function termIn(
  { attends, policy: label }: SavedManifest,
  given: CompiledPolicy | undefined,
  where: string,
): Promise<AttendHook | undefined> {
  if (!attends) return undefined;
  const own = given ?? (await policyOf(label).then(compile, () => undefined)),
    hook = own?.hooks('attend').find((one) => sameTerm(one, attends));
  if (hook) return hook;
  throw new KvError(
    where,
    `slots that left are still attended to as '${attends.by}' folded them: expected a policy with '${attends.by}', got ${given ? `'${given.label}'` : 'none'}`,
  );
}

/** Returns the policy. @throws KvError if something that it reads of the past was not recorded */
function remembered(policy: CompiledPolicy, manifest: SavedManifest): CompiledPolicy {
  const saved = new Map(
    [...manifest.states, ...manifest.layers.flatMap(({ states }) => states)].map(({ id, spec }) => [id, spec]),
  );
  for (const signal of union(
    policy.needs,
    ...[...policy.hooks('view'), ...policy.hooks('step')].map(({ needs }) => needs),
  )) {
    const spec = isState(signal) ? saved.get(signal.id) : undefined;
    const other =
      isState(signal) && spec !== undefined && (spec.kind !== signal.state.kind || spec.rows !== signal.state.rows);
    if (other || signal.hidden || !manifest.layers.every((layer) => remembers(layer, observationPlan([signal]))))
      throw notRemembered(signal, { saved: manifest.policy });
  }
  return policy;
}

/** Returns whether what the plan asks for was recorded. */
const remembers = (layer: SavedLayer, { window, accumulated, block, inputs }: ObservationPlan): boolean =>
  (layer.ring?.window ?? 0) >= window &&
  (!accumulated || layer.accumulated === true || layer.accumulated === accumulated) &&
  (!block || layer.block) &&
  inputs
    .map(slotState)
    .every(({ id, state }) =>
      layer.states.some(({ id: saved, spec }) => saved === id && spec.kind === state.kind && spec.rows === state.rows),
    );

function split(all: Uint32Array, lengths: readonly number[]): Uint32Array[] {
  let at = 0;
  return lengths.map((n) => all.slice(at, (at += n)));
}

async function readFile(path: string): Promise<Uint8Array> {
  const source = await fileSource(path);
  try {
    return await source.read(0, source.size);
  } finally {
    await source.close();
  }
}
