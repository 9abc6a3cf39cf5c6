import type { Ops } from './maths.ts';
import type { Tensor } from './tensor.ts';

/** Where tensors live: operations that record, and the one asynchronous read an event makes. */
export interface Backend {
  readonly name: string;
  readonly ops: Ops;
  /** Its tensors are numbers on the host, which last as long as somebody holds them. @defaultValue false */
  readonly lasting?: boolean;
  /** Numbers of the tensors, row-major, in one read. */
  read(tensors: readonly Tensor[]): Promise<
    readonly {
      readonly data: Float32Array | Uint32Array;
      readonly shape: readonly number[];
      readonly lengths?: Uint32Array | undefined;
    }[]
  >;
}
