import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import { tensorTypes, type TensorType } from './tensor-types.ts';

/** One tensor of a file: row-major, the last dimension contiguous. */
export interface TensorEntry {
  /**
   * Type as the file names it: one of `tensorTypes`, or one that cannot be read (I64,
   * IQ2_XS); `weightType` checks which.
   */
  readonly type: string;
  readonly shape: readonly number[];
}

/** Bytes of a tensor, counted from its first one. */
export interface BytesPart {
  readonly from: number;
  readonly length: number;
  /** Where they may be put. */
  readonly into?: Uint8Array | undefined;
}

/** A checkpoint's tensors, in any number of files: headers are read and checked up front, data one tensor at a time. */
export interface CheckpointTensors {
  /** Name in error messages. */
  readonly name: string;
  /** Type and shape of each tensor, by name. */
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /**
   * Reads a tensor's stored bytes, or a part of them. MXFP4 in safetensors is read whole.
   * @throws KvError for an unknown name, or a type that is not one of `tensorTypes`
   */
  bytes(tensor: string, part?: BytesPart): Promise<Uint8Array>;
  /** Closes the files. */
  close(): Promise<void>;
}

/** Total size of a checkpoint's tensors. */
export interface CheckpointSize {
  /** Bytes of all tensors, as stored. */
  readonly bytes: number;
  /** Whether some weights are block-quantised. */
  readonly quantised: boolean;
}

/** Returns the total size of a file's tensors, of those that are `held`; types that cannot be read are not counted. */
export function storedOf(
  { tensors }: Pick<CheckpointTensors, 'tensors'>,
  held: (tensor: string) => boolean = () => true,
): CheckpointSize {
  let [bytes, quantised] = [0, false];
  for (const [name, { type, shape }] of tensors) {
    if (!held(name)) continue;
    const layout = Object.hasOwn(tensorTypes, type) ? tensorTypes[type as TensorType] : undefined;
    if (layout === undefined) continue;
    bytes += (shape.reduce((count, size) => count * size, 1) / layout.numbers) * layout.bytes;
    quantised ||= layout.numbers > 1;
  }
  return { bytes, quantised };
}

/** Combines several files into one. @throws KvError for a tensor that two of them hold */
export function joinFiles(name: string, files: readonly CheckpointTensors[]): CheckpointTensors {
  const homes = new Map<string, CheckpointTensors>();
  for (const file of files)
    for (const tensor of file.tensors.keys()) {
      const other = homes.get(tensor);
      if (other !== undefined)
        throw new KvError(
          file.name,
          `expected tensors that no other part has, got ${show(tensor)}, which ${other.name} has too`,
        );
      homes.set(tensor, file);
    }
  return {
    name,
    tensors: new Map(files.flatMap((file) => [...file.tensors])),
    async bytes(tensor, part) {
      const home = homes.get(tensor);
      if (home === undefined) throw missing(name, tensor);
      return home.bytes(tensor, part);
    },
    close: () => closeAll(files),
  };
}

/** Returns the error for a tensor that a file lacks. */
export function missing(name: string, tensor: string): KvError {
  return new KvError(name, `expected a tensor ${tensor}, got a file without it`);
}

/** Closes all files, even if closing one fails. */
export async function closeAll(files: readonly { close(): Promise<void> }[]): Promise<void> {
  await Promise.allSettled(files.map((file) => file.close()));
}
