import type { Tensor } from '@kv/core';

/** A compute shader, and which of its storage bindings it writes. */
export interface Shader {
  readonly id: string;
  readonly code: string;
  /** Storage bindings of group 0 in order; `true` if the kernel writes to it. */
  readonly writes: readonly boolean[];
}

/** Workgroups of a shader over tensors. */
export interface Dispatch {
  /** Unique for each text of a shader. */
  readonly key: string;
  readonly shader: () => Shader;
  /** Tensors at group 0, by binding; undefined for absent ones. */
  readonly bound: readonly (Tensor | undefined)[];
  /** Scalars at group 1: at most 64, each of 4 bytes. */
  readonly scalars: Uint32Array;
  readonly groups: number;
  /** Bytes that it reads and writes, for the counters. @defaultValue those of the tensors, each once */
  readonly bytes?: number | undefined;
  /** Additions, multiplications, comparisons and functions, for plans. @defaultValue none */
  readonly operations?: (() => number) | undefined;
}
