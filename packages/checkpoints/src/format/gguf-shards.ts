import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import { readGguf, type GgufFile } from './gguf.ts';
import { closing, type OpenFile } from './safetensors-shards.ts';
import type { ByteSource } from '../read/source.ts';
import { joinFiles } from './tensor-file.ts';

const maxParts = 1000;

/**
 * Opens a GGUF file; if it is the first of several parts (`name-00001-of-00003.gguf`), opens the others next to it too.
 * The metadata is the first part's. On failure nothing is left open.
 * @param file path or URL of the file, or of its first part
 * @param open opens one file by its path
 * @throws KvError for a part that is missing, out of place or not the first, and for whatever `readGguf` refuses
 */
export async function openGguf(file: string, open: OpenFile): Promise<GgufFile> {
  const sources: ByteSource[] = [];
  const part = async (name: string): Promise<GgufFile> => {
    const source = await open(name);
    if (source === undefined) throw new KvError(file, `expected a file ${name}, got none`);
    sources.push(source);
    return readGguf(source);
  };
  return closing(sources, async () => {
    const first = await part(file);
    const count = first.metadata.get('split.count') ?? 1;
    if (count === 0 || count === 1) return first;
    if (typeof count !== 'number' || !(count > 0 && count <= maxParts))
      throw new KvError(first.name, `split.count must be from 1 to ${maxParts}, got ${show(count)}`);
    const name = (no: number): string =>
      `-${String(no + 1).padStart(5, '0')}-of-${String(count).padStart(5, '0')}.gguf`;
    const end = name(0);
    if (!file.endsWith(end))
      throw new KvError(
        first.name,
        `expected the first of ${count} parts, with a name that ends in ${end}, got ${file}`,
      );
    const parts = [first];
    for (let no = 1; no < count; no++) parts.push(await part(file.slice(0, -end.length) + name(no)));
    parts.forEach(({ name: where, metadata }, no) => {
      if (metadata.get('split.no') !== no || metadata.get('split.count') !== count)
        throw new KvError(
          where,
          `expected part ${no} of ${count}, got split.no ${show(metadata.get('split.no'))} of split.count ${show(metadata.get('split.count'))}`,
        );
    });
    const all = joinFiles(first.name, parts);
    const want = first.metadata.get('split.tensors.count');
    if (want !== undefined && want !== all.tensors.size)
      throw new KvError(
        first.name,
        `split.tensors.count must be the ${all.tensors.size} tensors of all parts, got ${show(want)}`,
      );
    return { ...all, metadata: first.metadata };
  });
}
