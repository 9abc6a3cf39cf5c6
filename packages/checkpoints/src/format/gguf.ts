import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import { createCursor, short, type Cursor } from './gguf-cursor.ts';
import { readMetadata, type GgufMetadata } from './gguf-metadata.ts';
import { checkGgufLayout, readTensorInfos, type GgufTensor } from './gguf-tensors.ts';
import type { ByteSource } from '../read/source.ts';
import { missing, type CheckpointTensors } from './tensor-file.ts';
import { weightType } from './tensor-types.ts';

/** A GGUF file: tensors with shapes row-major (ggml's dimensions reversed), and metadata. */
export interface GgufFile extends CheckpointTensors {
  readonly metadata: GgufMetadata;
}

interface Header {
  readonly metadata: GgufMetadata;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  /** Offset of the data part, from which tensors' offsets count, in bytes. */
  readonly data: number;
}

/** Bytes of the first read of a header, and of the longest header; that of a vocabulary of 256k tokens is 10 MiB. */
const firstRead = 2 ** 23;
const maxHeader = 2 ** 26;

/**
 * Opens a little-endian GGUF file of version 2 or 3: reads and checks the header only; tensors are read on demand.
 * `close` closes the source. One part of several is opened alone; `openGguf` opens all parts.
 * @throws KvError in one sentence for another format or version, and for any length, count, type, shape or offset that
 * contradicts the file
 */
export async function readGguf(source: ByteSource): Promise<GgufFile> {
  const where = source.name;
  const { metadata, tensors, data } = await readHeader(source);
  checkGgufLayout(tensors, source.size - data, where);
  return {
    name: where,
    metadata,
    tensors,
    async bytes(tensor, part) {
      const found = tensors.get(tensor);
      if (found === undefined) throw missing(where, tensor);
      weightType(found.type, `${where} ${show(tensor)}`);
      const { from = 0, length = found.end - found.begin, into } = part ?? {};
      return source.read(data + found.begin + from, length, into);
    },
    close: () => source.close(),
  };
}

/**
 * Reads a header, whose length is known only once it is parsed: starts with the first bytes and reads twice as many
 * whenever they are too few.
 */
async function readHeader(source: ByteSource): Promise<Header> {
  for (let length = firstRead; ; length *= 2) {
    const bytes = await source.read(0, Math.min(length, source.size, maxHeader));
    try {
      return parseHeader(createCursor(bytes, source.size, source.name));
    } catch (error) {
      if (error !== short) throw error;
    }
    if (length >= maxHeader)
      throw new KvError(source.name, `expected a header of at most ${maxHeader} bytes, got a longer one`);
  }
}

function parseHeader(cursor: Cursor): Header {
  const { where, view } = cursor;
  const magic = view.getUint32(cursor.take(4, 'the magic number'), false);
  if (magic !== 0x47475546)
    throw new KvError(where, `expected a GGUF file, got one that begins with 0x${magic.toString(16).padStart(8, '0')}`);
  const version = cursor.u32('the version');
  if ((version & 0xffff) === 0 && version !== 0)
    throw new KvError(where, 'expected a little-endian GGUF file, got a big-endian one');
  if (version !== 2 && version !== 3) throw new KvError(where, `expected GGUF version 2 or 3, got ${version}`);
  const tensorCount = cursor.u64('the number of tensors');
  const metadataCount = cursor.u64('the number of metadata values');
  const metadata = readMetadata(cursor, metadataCount);
  const alignment = alignmentOf(metadata, where);
  const tensors = readTensorInfos(cursor, tensorCount, alignment);
  return { metadata, tensors, data: Math.ceil(cursor.at() / alignment) * alignment };
}

function alignmentOf(metadata: GgufMetadata, where: string): number {
  const value = metadata.get('general.alignment') ?? 32;
  if (typeof value === 'number' && value > 0 && Number.isInteger(Math.log2(value)) && Number.isInteger(value))
    return value;
  throw new KvError(where, `general.alignment must be a power of two, got ${show(value)}`);
}
