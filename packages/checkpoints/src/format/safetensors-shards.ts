import { KvError } from '@kv/core';
import { object, show } from '../read/fields.ts';
import { withMxPairs } from './mx-pairs.ts';
import { readSafetensors, readStored } from './safetensors.ts';
import { readJson, type ByteSource } from '../read/source.ts';
import { closeAll, joinFiles, type CheckpointTensors } from './tensor-file.ts';

/** Opens a file of the same folder by its plain name; undefined if there is none. */
export type OpenFile = (file: string) => Promise<ByteSource | undefined>;

const single = 'model.safetensors';
const index = 'model.safetensors.index.json';
const maxShards = 1000;

/**
 * Opens a checkpoint's `model.safetensors`, or the shards that its `model.safetensors.index.json` names. On failure
 * nothing is left open.
 * @throws KvError if neither exists, if the index disagrees with its shards, and for whatever `readSafetensors` refuses
 */
export async function openSafetensors(open: OpenFile, where: string): Promise<CheckpointTensors> {
  const one = await open(single);
  if (one !== undefined) return closing([one], () => readSafetensors(one));
  const list = await open(index);
  if (list === undefined) throw new KvError(where, `expected ${single} or ${index}, got neither`);
  const homes = await readIndex(list).finally(() => list.close());
  const sources: ByteSource[] = [];
  return closing(sources, async () => {
    const shards = new Map<string, CheckpointTensors>();
    for (const file of new Set(homes.values())) {
      const source = await open(file);
      if (source === undefined) throw new KvError(list.name, `expected the shard ${file}, got no such file`);
      sources.push(source);
      shards.set(file, await readStored(source));
    }
    for (const [tensor, file] of homes)
      if (shards.get(file)?.tensors.has(tensor) !== true)
        throw new KvError(list.name, `weight_map must name the shard of ${show(tensor)}, got ${file}, which lacks it`);
    return withMxPairs(joinFiles(list.name, [...shards.values()]));
  });
}

/** Reads an index's `weight_map`: the shard that holds each tensor. */
async function readIndex(source: ByteSource): Promise<ReadonlyMap<string, string>> {
  const where = source.name;
  const map = object(object(await readJson(source), where, 'the index').weight_map, where, 'weight_map');
  const homes = new Map<string, string>();
  for (const [tensor, file] of Object.entries(map)) {
    // A name that is a path could read outside the checkpoint.
    if (typeof file !== 'string' || !/^\w[\w.-]{0,250}\.safetensors$/.test(file))
      throw new KvError(
        where,
        `weight_map must give ${show(tensor)} a plain file name that ends in .safetensors, got ${show(file)}`,
      );
    homes.set(tensor, file);
  }
  const shards = new Set(homes.values()).size;
  if (shards === 0 || shards > maxShards)
    throw new KvError(where, `weight_map must name from 1 to ${maxShards} files, got ${shards}`);
  return homes;
}

/** Returns the result of `read`; if it fails, closes the sources. */
export async function closing<T>(sources: readonly ByteSource[], read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    await closeAll(sources);
    throw error;
  }
}
