import { KvError } from './errors.ts';
import type { Ops } from './maths.ts';
import { showValue } from '../piece/option.ts';
import type { Tensor } from './tensor.ts';

/** Where tensors live: operations that record, and the one asynchronous read of an event. */
export interface Backend {
  readonly name: string;
  readonly ops: Ops;
  /** Its tensors are numbers on the host, which last as long as they are referenced. @defaultValue false */
  readonly lasting?: boolean;
  /** Reads the numbers of the tensors, row-major, at once. */
  read(tensors: readonly Tensor[]): Promise<
    readonly {
      readonly data: Float32Array | Uint32Array;
      readonly shape: readonly number[];
      readonly lengths?: Uint32Array | undefined;
    }[]
  >;
}

/** @throws KvError unless `backend` is a backend. */
export function expectBackend(at: string, backend: Backend): void {
  if (typeof backend !== 'object' || backend === null || typeof backend.read !== 'function' || !backend.ops)
    throw new KvError(at, `expected a backend such as 'cpu' of @kv/cpu, got ${showValue(backend)}`);
}
