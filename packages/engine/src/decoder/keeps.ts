import { slotLayers, stateNumbers } from '@kv/checkpoints';
import type { ModelConfig } from '@kv/checkpoints';

/**
 * What a layer of the model keeps of earlier tokens for later ones:
 *
 * - `slots`: a key and a value of every token, until a policy evicts it or the layer's window has passed it. Fed by
 *   appending, cut to the slots before a token.
 * - `state`: a fixed number of numbers, which every token changes and no policy sees. It cannot be cut: a copy of fewer
 *   tokens starts from a snapshot.
 *
 * Both are counted in the ledger, copied by forks and written to saved caches.
 */
export type Keeps = {
  readonly kind: 'slots' | 'state';
  /** Its place among the layers that keep the same. */
  readonly at: number;
};

/** What the layers of a model keep. */
export interface KeptLayers {
  /** By layer of the model. */
  readonly all: readonly Keeps[];
  /** Layers of the model that keep slots; policies count these alone, from 0. */
  readonly slots: readonly number[];
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
  const counts = { slots: 0, state: 0 },
    slotsBefore: number[] = [],
    all = config.mixers.map(({ kind }): Keeps => {
      const keeps = kind === 'attention' ? 'slots' : 'state';
      slotsBefore.push(counts.slots);
      return { kind: keeps, at: counts[keeps]++ };
    });
  const kept = {
    all,
    slots: slotLayers(config),
    slotsBefore: [...slotsBefore, counts.slots],
    states: config.mixers.filter(({ kind }) => kind !== 'attention').map(stateNumbers),
  };
  known.set(config, kept);
  return kept;
}

/**
 * Returns a model's configuration as its caches and policies see it: of the layers that keep slots, counted from 0. The
 * same object where all layers do.
 */
export function slotModel(config: ModelConfig): ModelConfig {
  const { slots, states } = keptLayers(config);
  if (states.length === 0) return config;
  const before = models.get(config);
  if (before) return before;
  const { attention, mixers, ropes } = config,
    model = {
      ...config,
      layers: slots.length,
      mixers: slots.map((layer) => mixers[layer]),
      ropes: slots.map((layer) => ropes[layer]),
      attention: { ...attention, windows: slots.map((layer) => attention.windows[layer]) },
    };
  models.set(config, model);
  return model;
}

/** Returns the bytes of a sequence's states, all layers together; 0 for a model without any. */
export const stateBytes = ({ mixers }: Pick<ModelConfig, 'mixers'>): number =>
  4 * mixers.reduce((sum, mixer) => sum + stateNumbers(mixer), 0);
