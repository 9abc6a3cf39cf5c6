import { keys, KvError, readTensorFile, scorer, sidecar, tensorFile } from '@kv/core';
import type { Signal } from '@kv/core';

/**
 * Filters of one layer: a direction for every KV head, `[G, d]`. A key scores lower the more it has along its filter.
 */
export interface QFilters {
  readonly kvHeads: number;
  readonly headDim: number;
  readonly filters: Float32Array;
}

/** Name of the file next to the model. */
export const Q_FILTERS_FILE = 'q-filters.safetensors';

/**
 * Returns the filters of all layers as a safetensors file with the tensor of kvpress' and the authors' files,
 * `q_filters` `[L, G, d]`.
 */
export const qFiltersFile = (rows: readonly QFilters[], metadata: Readonly<Record<string, string>> = {}): Uint8Array =>
  tensorFile({
    metadata,
    tensors: {
      q_filters: {
        shape: [rows.length, rows[0].kvHeads, rows[0].headDim],
        data: Float32Array.from(rows.flatMap(({ filters }) => Array.from(filters))),
      },
    },
  });

/**
 * Reads a file that `qFiltersFile` writes, or a file of filters from the Hugging Face hub.
 *
 * @throws KvError for any other bytes.
 */
export function readQFilters(file: Uint8Array): readonly QFilters[] {
  const { shape, data } = readTensorFile(Q_FILTERS_FILE, file, ['q_filters']).tensors['q_filters'],
    [L = 0, G = 0, d = 0, ...more] = shape;
  if (more.length > 0 || L * G * d === 0)
    throw new KvError(Q_FILTERS_FILE, `expected filters [layers, KV heads, channels], got [${shape.join(', ')}]`);
  return Array.from({ length: L }, (_, l) => ({
    kvHeads: G,
    headDim: d,
    filters: data.subarray(l * G * d, (l + 1) * G * d),
  }));
}

/**
 * Signal: a layer's filters, from `q-filters.safetensors` next to the model.
 *
 * @throws KvError where the file is missing or belongs to another model.
 */
export const qFilters: Signal<'qFilters', QFilters> = sidecar({
  as: 'qFilters',
  piece: 'qfilter',
  file: Q_FILTERS_FILE,
  of: 'filters',
  make: 'node tools/calibrate.mjs MODEL',
  read: readQFilters,
});

/**
 * Q-Filters: minus the inner product of a cached key with its head's filter. The filter points against the main
 * direction of queries, so keys that most queries attend to stay.
 *
 * @remarks Godey et al. 2025, arXiv:2503.02812, with the sign and the files of kvpress. Scores on KV rows `[G, n]`.
 * Reads no attention. O(G n d), and a file next to the model.
 * @throws KvError in an event where the filters have another shape.
 */
export const qfilter = scorer(
  'qfilter',
  {
    source: 'Godey et al. 2025, arXiv:2503.02812',
    says: 'Minus the product of a key with the calibrated filter of its head.',
    needs: [qFilters, keys],
  },
  ({ ops, at: { kvHeads: G, headDim: d }, qFilters: { kvHeads, headDim, filters }, keys: k }) => {
    if (kvHeads !== G || headDim !== d)
      throw new KvError(
        'qfilter',
        `expected filters of ${G} KV heads with ${d} channels, got ${kvHeads} heads with ${headDim}`,
      );
    return ops.mul(ops.dot(ops.from({ data: filters, shape: [G, d] }), k), -1);
  },
);
