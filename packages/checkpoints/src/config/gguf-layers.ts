import { KvError } from '@kv/core';
import { checkHeads, mostHeadDim, type ModelConfig } from './config.ts';
import type { Keys } from './gguf-keys.ts';
import { mixersByLayer } from './layers.ts';
import { integer, show } from '../read/fields.ts';

/** Returns what a file says of layers that differ. @throws KvError naming the key that does not fit the layers */
export function layersOfFile(
  keys: Keys,
  {
    queryHeads,
    headDim,
    windows,
    hasValues,
  }: {
    readonly queryHeads: number;
    readonly headDim: number;
    readonly windows: readonly number[];
    hasValues(layer: number): boolean;
  },
): Pick<ModelConfig, 'mixers' | 'ffn'> & Partial<Pick<ModelConfig, 'ffns' | 'perLayer'>> {
  const { where, metadata } = keys,
    layers = windows.length,
    local = keys.integer('attention.key_length_swa', headDim, mostHeadDim),
    slides = windows.map(Number.isFinite),
    shared = keys.integer('attention.shared_kv_layers', 0, layers, 0),
    perLayer = keys.integer('embedding_length_per_layer_input', 0, undefined, 0);
  const numbers = (rest: string, fallback?: number): readonly number[] => {
    const key = keys.key(rest),
      list = metadata[key];
    if (!Array.isArray(list)) return new Array<number>(layers).fill(keys.integer(rest, fallback));
    if (list.length !== layers)
      throw new KvError(where, `${key} must be a number, or one for each of ${layers} layers, got ${show(list)}`);
    return list.map((value) => integer({ [key]: value as unknown }, key, where));
  };
  const ffns = numbers('feed_forward_length'),
    kvHeads = numbers('attention.head_count_kv', queryHeads),
    heads = kvHeads.map((count, l) => ({ kvHeads: count, headDim: slides[l] ? local : headDim }));
  for (const { kvHeads, headDim } of heads) checkHeads(queryHeads, kvHeads, headDim, where);
  const values = keys.integer('attention.value_length_swa', local);
  if (values !== local)
    throw new KvError(
      where,
      `${keys.key('attention.value_length_swa')} must be that of keys (${local}), got ${values}`,
    );
  return {
    mixers: mixersByLayer(
      {
        ...{ slides, heads, shared },
        valuesOfKeys: (l) => !hasValues(l),
        names: {
          shared: keys.key('attention.shared_kv_layers'),
          kvHeads: keys.key('attention.head_count_kv'),
          headDim: keys.key('attention.key_length'),
        },
      },
      where,
    ),
    ffn: ffns[0],
    ...(ffns.some((width) => width !== ffns[0]) && { ffns }),
    ...(perLayer > 0 && { perLayer }),
  };
}
