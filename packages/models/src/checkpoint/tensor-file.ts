import type { TensorType } from './tensor-types.ts';

/** One tensor of a file: row-major, the last dimension contiguous. */
export interface TensorEntry {
  readonly type: TensorType;
  readonly shape: readonly number[];
}

/** A checkpoint's tensors, whatever files they lie in: the headers are read and checked, the data is read one tensor at a time. */
export interface TensorFile {
  /** What messages call it. */
  readonly name: string;
  readonly tensors: ReadonlyMap<string, TensorEntry>;
  /** A tensor's stored bytes. @throws KvError for a name that the file lacks. */
  bytes(tensor: string): Promise<Uint8Array>;
  close(): Promise<void>;
}
