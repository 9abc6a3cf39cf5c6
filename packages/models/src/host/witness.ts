import { attentionLast } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { Visible } from '../attention/visible.ts';
import type { SequenceMemory } from './sequence-memory.ts';

/** The newest query of one query head, and what is left for it. */
export interface WitnessedRow {
  /** An eviction, or what views leave visible of a cache that stays. */
  readonly at: 'event' | 'view';
  readonly layer: number;
  readonly head: number;
  /** Tokens generated so far. */
  readonly step: number;
  /** Position of the query. */
  readonly query: number;
  /** Its softmax weights over all slots, evicted and hidden ones included. */
  readonly weights: Float32Array;
  /** Original positions of those slots. */
  readonly positions: readonly number[];
  /** Slots that stay, ascending. */
  readonly kept: readonly number[];
}
/** Looks on while a run evicts and hides, and concludes something about it; `certificates()` of `@kv/certificates` is one. */
export interface Witness {
  row(row: WitnessedRow): void;
  /** @param run what there was to see: heads, layers and decoding steps, and the sum over all layers of a state that pieces kept. */
  conclude(run: { readonly heads: number; readonly layers: number; readonly steps: number; total(state: string): number | undefined }): object;
}

type Positions = readonly (readonly number[])[];
/** The newest query's weights of these layers, `[H, n]` each, as they are now. */
async function weightsNow(memory: SequenceMemory, layers: readonly number[]): Promise<readonly { readonly data: Float32Array; readonly slots: number }[]> {
  const read = await memory.backend.read(layers.map((l) => memory.reader(l)(attentionLast) as Tensor));
  return read.map(({ data, shape: [, slots = 0] }) => ({ data: data as Float32Array, slots }));
}

/** Takes down what these layers hold before an event, and shows it beside what the event kept, `[layer][kvHead]`. */
export async function beforeEvent(memory: SequenceMemory, layers: readonly number[]): Promise<(witness: Witness, kept: readonly Positions[]) => void> {
  const held = memory.kept(), weights = await weightsNow(memory, layers), { decoded: step, length } = memory;
  return (witness, kept) => layers.forEach((layer, i) => show(witness, { at: 'event', layer, step, query: length - 1 }, weights[i]!, held[layer]!, (positions, _head, g) => {
    const left = new Set(kept[i]![g]!);
    return positions.flatMap((p, slot) => (left.has(p) ? [slot] : []));
  }));
}

/** Shows what views left visible to the newest token. */
export async function showViews(witness: Witness, memory: SequenceMemory, seen: ReadonlyMap<number, readonly Visible[]>): Promise<void> {
  const layers = [...seen.keys()], held = memory.kept(), weights = await weightsNow(memory, layers), { decoded: step, length } = memory, query = length - 1;
  layers.forEach((layer, i) => {
    const { data, slots } = weights[i]!, heads = slots === 0 ? 0 : data.length / slots;
    show(witness, { at: 'view', layer, step, query }, weights[i]!, held[layer]!, (positions, head, g, groups) => positions.flatMap((p, slot) => {
      const open = seen.get(layer)!.every(({ mask, sinks = 0, lower }) => {
        const rows = mask ? mask.length / slots : 1, row = rows === heads ? head : rows === groups ? g : 0;
        return (!mask || mask[row * slots + slot] !== 0) && (!lower || p < sinks || p >= lower(query));
      });
      return open || p === query ? [slot] : [];
    }));
  });
}

function show(witness: Witness, place: Pick<WitnessedRow, 'at' | 'layer' | 'step' | 'query'>, { data, slots }: { readonly data: Float32Array; readonly slots: number }, held: Positions, left: (positions: readonly number[], head: number, g: number, groups: number) => readonly number[]): void {
  const heads = slots === 0 ? 0 : data.length / slots;
  for (let head = 0; head < heads; head++) {
    const g = Math.floor((head * held.length) / heads), positions = held[g]!;
    witness.row({ ...place, head, weights: data.slice(head * slots, head * slots + positions.length), positions, kept: left(positions, head, g, held.length) });
  }
}
