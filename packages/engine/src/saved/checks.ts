import { KvError, LEVELS } from '@kv/core';
import { MOST_BIAS } from '@kv/core/engine';
import { slotHeads, stateNumbers } from '@kv/checkpoints';
import { expectLevels, storedForms, type StorageForm } from '../cache/form.ts';
import { levelOf, recordRows, recordsOf } from '../cache/records.ts';
import { decodeRecords } from '../cache/record-rows.ts';
import type { SavedArray, SavedArrays } from './file.ts';
import type { CacheShape } from './layout.ts';
import type { SavedManifest } from './manifest.ts';

/** Checks a manifest's counts against the model's. @throws KvError naming what does not fit. */
export function checkCounts(
  { form, tokens, shift, layers, carried = [], promptLength }: SavedManifest,
  { mixers }: CacheShape,
  where: string,
): void {
  const heads = slotHeads({ mixers }),
    L = heads.length,
    numbers = mixers.filter(({ kind }) => kind !== 'attention').map(stateNumbers);
  if (carried.length !== numbers.length || carried.some((count, i) => count !== numbers[i]))
    throw new KvError(
      where,
      `expected states of ${numbers.length} layers, of [${numbers}] numbers, got ${carried.length}, of [${carried.slice(0, 64)}]`,
    );
  if (layers.length !== L || layers.some(({ lengths }, l) => lengths.length !== heads[l].kvHeads))
    throw new KvError(
      where,
      `expected ${L} layers of ${[...new Set(heads.map(({ kvHeads }) => kvHeads))].join(' and ')} KV heads, got another number`,
    );
  if (tokens === 0 || promptLength > tokens || (shift ?? 0) > tokens)
    throw new KvError(
      where,
      `expected a prompt and a shift within its tokens, got ${promptLength} and ${shift ?? 0} of ${tokens}`,
    );
  for (const [l, { lengths, ring, event, states, levels }] of layers.entries()) {
    const { kvHeads: G, headDim } = heads[l];
    const most = { slot: Math.max(...lengths), position: tokens };
    if (states.some(({ spec: { kind }, columns }) => (kind === 'slot' || kind === 'position') && columns > most[kind]))
      throw new KvError(where, 'a state must not cover more slots or tokens than the cache holds');
    if (lengths.some((n) => n > tokens) || (ring && (ring.seen > tokens || ring.window === 0)))
      throw new KvError(
        where,
        `expected slots and a ring within its ${tokens} tokens, got ${Math.max(...lengths, ring?.seen ?? 0)}`,
      );
    if (levels) {
      const slots = lengths.reduce((a, b) => a + b, 0);
      if (levels.length !== LEVELS.length || levels.reduce((a, b) => a + b, 0) !== slots)
        throw new KvError(where, `expected ${LEVELS.length} counts of levels, of ${slots} slots, got others`);
      const used = LEVELS.filter((_, level) => levels[level] > 0);
      if (used.some((level) => levelOf(level) < levelOf(form)))
        throw new KvError(where, `expected levels no finer than ${form}, got ${used[0]}`);
      expectLevels(where, used, [headDim]);
    }
    if (event && event.kept.length !== G)
      throw new KvError(where, `expected kept slots of ${G} KV heads, got ${event.kept.length}`);
  }
}

/**
 * Checks the numbers: ids, orders and bounds, and that all numbers used in computations are finite. @throws KvError
 * naming tensor and index.
 */
export function checkNumbers(
  { form, tokens, shift, layers }: SavedManifest,
  arrays: SavedArrays,
  { vocab, mixers }: CacheShape,
  where: string,
): void {
  const heads = slotHeads({ mixers }),
    next = tokens - (shift ?? 0),
    fail = (name: string, want: string, got: unknown, at: number): never => {
      throw new KvError(where, `${name} must ${want}, got ${String(got)} at ${at}`);
    };
  // The file holds all that its manifest names.
  const numbers = (name: string): SavedArray => arrays.get(name)!;
  const below = (name: string, limit: number): void => {
    const list = numbers(name),
      at = list.findIndex((x) => x >= limit);
    if (at >= 0) fail(name, `be below ${limit}`, list[at], at);
  };
  const ascend = (name: string, lengths: readonly number[], limit: number): void => {
    const list = numbers(name);
    below(name, limit);
    let from = 0;
    for (const n of lengths) {
      for (let i = from + 1; i < from + n; i++)
        if (list[i] <= list[i - 1]) fail(name, 'ascend in each head', list[i], i);
      from += n;
    }
  };
  for (const [name, list] of arrays) {
    if (list instanceof Uint32Array) continue;
    if (name.endsWith('.records')) continue;
    if (list instanceof Uint8Array) {
      const at = isHalf(name, form) ? notFinite(list) : -1;
      if (at >= 0) fail(name, 'hold finite numbers', 'none', at);
      continue;
    }
    // A piece may keep an infinity as "none yet" in its state.
    const bad = /states\.\d+$/.test(name)
      ? list.findIndex((x) => Number.isNaN(x))
      : list.findIndex((x) => !Number.isFinite(x));
    if (bad >= 0) fail(name, 'hold finite numbers', list[bad], bad);
  }
  below('tokens', vocab);
  for (const [l, { lengths, aligned, ring, event, levels, biases }] of layers.entries()) {
    const { headDim } = heads[l],
      at = `layers.${l}.`,
      positions = numbers(`${at}positions`);
    ascend(`${at}positions`, lengths, tokens);
    if (levels) {
      const of = numbers(`${at}levels`) as Uint32Array;
      below(`${at}levels`, LEVELS.length);
      if (levels.some((count, level) => count !== of.reduce((sum, x) => sum + Number(x === level), 0)))
        throw new KvError(where, `${at}levels must be as many of each level as the file says, got others`);
      // decoded by the reader that attention has, since a record's scales lie among its codes
      const records = recordsOf(of, numbers(`${at}records`) as Uint8Array, headDim),
        row = new Float32Array(headDim),
        bad = of.findIndex((_, slot) =>
          (['keys', 'values'] as const).some((part) => {
            decodeRecords(recordRows({ records }, part, slot, 1), headDim, row);
            return !row.every((x) => Number.isFinite(x));
          }),
        );
      if (bad >= 0) fail(`${at}records`, 'hold finite numbers', 'none', bad);
    }
    if (shift !== null) ascend(`${at}rotations`, lengths, next);
    if (biases) {
      const list = numbers(`${at}biases`),
        bad = list.findIndex((x) => Math.abs(x) > MOST_BIAS);
      if (bad >= 0) fail(`${at}biases`, `be at most ${MOST_BIAS} in size`, list[bad], bad);
    }
    if (ring) below(`${at}ring.positions`, tokens);
    if (ring && shift !== null) below(`${at}ring.rotations`, next);
    if (event) ascend(`${at}kept`, event.kept, tokens);
    const bad = aligned ? positions.findIndex((x, i) => x !== positions[i % lengths[0]]) : -1;
    if (bad >= 0 || (aligned && lengths.some((n) => n !== lengths[0])))
      fail(`${at}positions`, 'be the same in all heads, as the file says', positions[bad], bad);
  }
}

/** Whether a tensor of bytes holds halves: rows of f16, or the scales and minima of 4 bits. */
function isHalf(name: string, form: StorageForm): boolean {
  const as = storedForms[form][name.includes('keys') ? 'keys' : 'values'];
  return as === 'f16' || (as === 'q4' && name.endsWith('.scales'));
}

/** Returns the index of the first half that is no finite number, or -1. */
const notFinite = ({ buffer, byteOffset, byteLength }: Uint8Array): number =>
  new Uint16Array(buffer, byteOffset, byteLength / 2).findIndex((half) => (half & 0x7c00) === 0x7c00);
