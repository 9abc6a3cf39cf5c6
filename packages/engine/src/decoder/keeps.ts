import { headsOf, slotLayers, stateNumbers } from '@kv/checkpoints';
import type { AttentionMixer, Heads, ModelConfig } from '@kv/checkpoints';

/**
 * What a layer of the model keeps of earlier tokens for later ones:
 *
 * - `slots`: a key and a value of every token, until a policy evicts it or the layer's window has passed it. Fed by
 *   appending, cut to the slots before a token.
 * - `state`: a fixed number of numbers, which every token changes and no policy sees. It cannot be cut: a copy of fewer
 *   tokens starts from a snapshot.
 * - `shared`: nothing. Its queries read the slots of an earlier layer, with which it is one layer to policies: one whose
 *   query heads are those of all layers that read its slots.
 *
 * What is kept is counted in the ledger, copied by forks and written to saved caches, once.
 */
export interface Keeps {
  readonly kind: 'slots' | 'state' | 'shared';
  /** Its place among the layers that keep the same; for `shared`, that of the layer whose slots it reads. */
  readonly at: number;
  /** Where several layers read these slots: which of them it is. */
  readonly reader?: SlotReader;
}

/** One of several layers that read the same slots. */
export interface SlotReader {
  /** Layer of the model. */
  readonly layer: number;
  /** Query heads of all layers that read these slots. */
  readonly all: number;
  /** Places of its query heads among them: those of a KV head lie together, in the order of the layers. */
  readonly rows: Uint32Array;
  /** Whether it is the layer that keeps the slots, and the last one that reads them. */
  readonly first: boolean;
  readonly last: boolean;
}

/** What the layers of a model keep. */
export interface KeptLayers {
  /** By layer of the model. */
  readonly all: readonly Keeps[];
  /** Layers of the model that keep slots; policies count these alone, from 0. */
  readonly slots: readonly number[];
  /** The layers of the model that read the slots of each of these, itself first. */
  readonly readers: readonly (readonly number[])[];
  /** How many of them come before each layer of the model, and, last, how many there are. */
  readonly slotsBefore: readonly number[];
  /** Numbers of each state. */
  readonly states: readonly number[];
}

const known = new WeakMap<ModelConfig, KeptLayers>(),
  models = new WeakMap<ModelConfig, ModelConfig>();

/** Returns what the layers of a model keep. */
export function keptLayers(config: ModelConfig): KeptLayers {
  const before = known.get(config);
  if (before) return before;
  const { mixers } = config,
    slots = slotLayers(config),
    readers = slots.map((own) => [
      own,
      ...[...mixers.keys()].filter((layer) => {
        const mixer = mixers[layer];
        return mixer.kind === 'attention' && mixer.slotsOf === own;
      }),
    ]);
  let states = 0;
  const slotsBefore: number[] = [],
    all = mixers.map((mixer, layer): Keeps => {
      slotsBefore.push(slots.filter((own) => own < layer).length);
      if (mixer.kind !== 'attention') return { kind: 'state', at: states++ };
      const at = slots.indexOf(mixer.slotsOf ?? layer),
        several = readers[at].length > 1;
      return {
        kind: mixer.slotsOf === undefined ? 'slots' : 'shared',
        at,
        ...(several && { reader: slotReader(headsOf(config, layer), layer, readers[at]) }),
      };
    });
  const kept = {
    all,
    slots,
    readers,
    slotsBefore: [...slotsBefore, slots.length],
    states: config.mixers.filter(({ kind }) => kind !== 'attention').map(stateNumbers),
  };
  known.set(config, kept);
  return kept;
}

/**
 * Returns the heads of the layers that keep slots, in order, as policies see them: with the query heads of all layers that
 * read their slots.
 */
export function joinedHeads(config: Pick<ModelConfig, 'mixers' | 'queryHeads'>): readonly Heads[] {
  const { mixers } = config;
  return slotLayers(config).map((own) => {
    const heads = headsOf(config, own),
      others = mixers.filter((mixer) => mixer.kind === 'attention' && mixer.slotsOf === own).length;
    return { ...heads, queryHeads: (1 + others) * heads.queryHeads };
  });
}

/** Returns the place of a layer among those that read the same slots. */
function slotReader({ queryHeads: H, kvHeads: G }: Heads, layer: number, readers: readonly number[]): SlotReader {
  const group = H / G,
    at = readers.indexOf(layer),
    count = readers.length;
  return {
    layer,
    all: H * count,
    rows: Uint32Array.from({ length: H }, (_, h) => (Math.floor(h / group) * count + at) * group + (h % group)),
    first: at === 0,
    last: at === count - 1,
  };
}

/**
 * Returns a model's configuration as its caches and policies see it: of the layers that keep slots, counted from 0, each
 * with the query heads of all layers that read its slots. The same object where all layers keep slots.
 */
export function slotModel(config: ModelConfig): ModelConfig {
  const { slots, readers } = keptLayers(config);
  if (slots.length === config.layers) return config;
  const before = models.get(config);
  if (before) return before;
  const { attention, mixers, ropes } = config,
    model = {
      ...config,
      layers: slots.length,
      mixers: joinedHeads(config).map((heads, l) => (readers[l].length === 1 ? mixers[slots[l]] : attentionOf(heads))),
      ropes: slots.map((layer) => ropes[layer]),
      attention: { ...attention, windows: slots.map((layer) => attention.windows[layer]) },
    };
  models.set(config, model);
  return model;
}

const attentionOf = (heads: Heads): AttentionMixer => ({ kind: 'attention', ...heads });

/** Returns the bytes of a sequence's states, all layers together; 0 for a model without any. */
export const stateBytes = ({ mixers }: Pick<ModelConfig, 'mixers'>): number =>
  4 * mixers.reduce((sum, mixer) => sum + stateNumbers(mixer), 0);
