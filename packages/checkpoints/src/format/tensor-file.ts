import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import { tensorTypes, type TensorType } from './tensor-types.ts';

/** One tensor of a file: row-major, the last dimension contiguous. */
export interface TensorEntry {
  /** As the file names it: one of `tensorTypes`, or a type that is not read (I64, IQ2_XS); `weightType` tells. */
  readonly type: string;
  readonly shape: readonly number[];
}

/**
 * A checkpoint's tensors, whatever files they lie in: the headers are read and checked, the data is read one tensor at
 * a time.
 */
export interface CheckpointTensors {
  /** What messages call it. */
  readonly name: string;
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /**
   * A tensor's stored bytes. @throws KvError for a name that the file lacks, and for a type that is not one of
   * `tensorTypes`.
   */
  bytes(tensor: string): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** What a checkpoint's tensors come to. */
export interface CheckpointSize {
  readonly bytes: number;
  /** Some weights are in blocks of codes. */
  readonly quantised: boolean;
}

/** What a file's tensors come to; those of types that are not read count for nothing. */
export function storedOf({ tensors }: Pick<CheckpointTensors, 'tensors'>): CheckpointSize {
  let [bytes, quantised] = [0, false];
  for (const { type, shape } of tensors.values()) {
    const layout = Object.hasOwn(tensorTypes, type) ? tensorTypes[type as TensorType] : undefined;
    if (layout === undefined) continue;
    bytes += (shape.reduce((count, size) => count * size, 1) / layout.numbers) * layout.bytes;
    quantised ||= layout.numbers > 1;
  }
  return { bytes, quantised };
}

/** Several files as one. @throws KvError for a tensor that two of them hold. */
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
    async bytes(tensor) {
      const home = homes.get(tensor);
      if (home === undefined) throw missing(name, tensor);
      return home.bytes(tensor);
    },
    close: () => closeAll(files),
  };
}

/** For a tensor that a file lacks. */
export function missing(name: string, tensor: string): KvError {
  return new KvError(name, `expected a tensor ${tensor}, got a file without it`);
}

/** Closes every one, also if one fails. */
export async function closeAll(files: readonly { close(): Promise<void> }[]): Promise<void> {
  await Promise.allSettled(files.map((file) => file.close()));
}
