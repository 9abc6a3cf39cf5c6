import type { Tensor } from '@kv/core';

/** A compute shader, and which of its storage bindings it writes. */
export interface Shader {
  readonly id: string;
  readonly code: string;
  /** Storage bindings of group 0 in order; `true` where the kernel writes. */
  readonly writes: readonly boolean[];
}

/** Workgroups of a shader over tensors. */
export interface Dispatch {
  /** Unique among shaders with another text. */
  readonly key: string;
  readonly shader: () => Shader;
  /** At group 0, by binding; undefined for what is not there. */
  readonly bound: readonly (Tensor | undefined)[];
  /** At group 1: at most 64, each of 4 bytes. */
  readonly scalars: Uint32Array;
  readonly groups: number;
  /** Bytes that it reads and writes, for the counters. @defaultValue those of the tensors, each once */
  readonly bytes?: number | undefined;
  /** Additions, multiplications, comparisons and functions, for plans. @defaultValue none */
  readonly operations?: (() => number) | undefined;
}
