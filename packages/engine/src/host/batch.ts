import type { BatchGroup, BatchPlace } from '../memory/memory.ts';
import type { Angles } from '../decoder/program.ts';
import { joined } from '@kv/checkpoints';
import type { HostDecoder, Projection } from './decoder.ts';
import { Meeting, Seat } from '../memory/meeting.ts';

/** Rows of one member on their way through one product. */
type Ask = { readonly x: Float32Array; fail(cause: unknown): void } & (
  | { readonly of: 'project'; readonly layer: number; readonly angles: Angles; done(result: Projection): void }
  | { readonly of: 'finish'; readonly layer: number; readonly attended: Float32Array; done(result: Float32Array): void }
  | { readonly of: 'logits'; readonly layer: 0; done(result: Float32Array): void }
);
type AskOf<K extends Ask['of']> = Extract<Ask, { readonly of: K }>;

const groups = new WeakMap<HostDecoder, BatchGroup>();

/** What memories over this decoder may be fed together by. */
export function batchGroup(decoder: HostDecoder): BatchGroup | undefined {
  if (!decoder.rowwise) return undefined;
  const group = groups.get(decoder) ?? { key: decoder, open: (count) => new Batch(decoder, count).places };
  groups.set(decoder, group);
  return group;
}

/** The decoder of a place among several. */
export const decoderAt = (place: BatchPlace | undefined): HostDecoder | undefined =>
  place instanceof Place ? place.decoder : undefined;

/**
 * Passes that meet at every product: it runs once all of them have brought their rows there. Attention, views and
 * whatever else a pass does stays its own.
 */
class Batch {
  readonly places: readonly Place[];
  readonly #decoder: HostDecoder;

  constructor(decoder: HostDecoder, count: number) {
    this.#decoder = decoder;
    const meeting = new Meeting<Ask>(count, (asks) => this.#take(asks));
    this.places = Array.from({ length: count }, () => new Place(decoder, meeting));
  }

  #take(all: readonly Ask[]): void {
    const products = new Map<string, Ask[]>();
    for (const ask of all) {
      const key = `${ask.of} ${ask.layer}`;
      products.set(key, [...(products.get(key) ?? []), ask]);
    }
    for (const asks of products.values())
      void this.#run(asks).catch((cause: unknown) => {
        for (const ask of asks) ask.fail(cause);
      });
  }

  async #run(asks: readonly Ask[]): Promise<void> {
    const { of, layer } = asks[0],
      x = joined(asks.map((ask) => ask.x));
    if (of === 'project') return this.#project(layer, x, asks as readonly AskOf<'project'>[]);
    const rest = asks as readonly AskOf<'finish' | 'logits'>[],
      y =
        of === 'logits'
          ? await this.#decoder.logits(x)
          : await this.#decoder.finish(layer, x, joined((asks as readonly AskOf<'finish'>[]).map((a) => a.attended)));
    const width = (y.length / x.length) * this.#decoder.config.hidden,
      D = this.#decoder.config.hidden;
    let row = 0;
    for (const ask of rest) {
      const m = ask.x.length / D;
      ask.done(y.slice(row * width, (row + m) * width));
      row += m;
    }
  }

  async #project(layer: number, x: Float32Array, asks: readonly AskOf<'project'>[]): Promise<void> {
    const { hidden, headDim } = this.#decoder.config,
      M = x.length / hidden;
    const { q, k, v } = await this.#decoder.projectBy(layer, x, {
      rotary: asks[0].angles.rotary,
      cos: joined(asks.map(({ angles }) => angles.cos)),
      sin: joined(asks.map(({ angles }) => angles.sin)),
    });
    let row = 0;
    for (const { x: own, done } of asks) {
      const m = own.length / hidden,
        rows = (all: Float32Array): Float32Array => rowsOfHeads(all, M, row, m, headDim);
      done({ q: rows(q), k: rows(k), v: rows(v) });
      row += m;
    }
  }
}

class Place extends Seat<Ask> {
  readonly decoder: HostDecoder;

  constructor(decoder: HostDecoder, meeting: Meeting<Ask>) {
    super(meeting);
    const finish: HostDecoder['finish'] = (layer, x, attended) =>
      new Promise((done, fail) => meeting.bring({ of: 'finish', layer, x, attended, done, fail }));
    const projectBy: HostDecoder['projectBy'] = (layer, x, angles) =>
      new Promise((done, fail) => meeting.bring({ of: 'project', layer, x, angles, done, fail }));
    this.decoder = {
      ...decoder,
      projectBy,
      project: (layer, x, positions, length) => projectBy(layer, x, decoder.angles(layer, positions, length)),
      finish,
      attendAndFinish: async (layer, x, attention) => finish(layer, x, await decoder.attend(attention)),
      logits: (x) => new Promise((done, fail) => meeting.bring({ of: 'logits', layer: 0, x, done, fail })),
    };
  }
}

/** Rows `[row, row + m)` of heads `[H, M, d]`, as `[H, m, d]`. */
function rowsOfHeads(all: Float32Array, M: number, row: number, m: number, d: number): Float32Array {
  const heads = all.length / (M * d),
    out = new Float32Array(heads * m * d);
  for (let h = 0; h < heads; h++) out.set(all.subarray((h * M + row) * d, (h * M + row + m) * d), h * m * d);
  return out;
}
