import type { Kernel, Products, Axis, PoolOptions, Reduction } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import type { Elements, ElementwiseKind } from './elementwise.ts';

export interface SlotMasks {
  readonly forced?: HostTensor | undefined;
  readonly banned?: HostTensor | undefined;
  readonly active?: HostTensor | undefined;
}

/** The operations that an event spends its time in, on dimensions that fit. */
export interface Vectors {
  /** All rows to `rows`, neighbours together. */
  grouped(kind: Reduction, x: HostTensor, rows: number): HostTensor;
  /** One number for each element. */
  elementwise(kind: ElementwiseKind, elements: Elements): HostTensor;
  /** Products of many vectors, for operations and for references of kernels. */
  readonly products: Products;
  /** The implementation that computes a kernel. */
  reference(kernel: Kernel): Kernel['ref'];
  /** One axis to size 1; channels are dropped. */
  reduce(kind: Reduction, x: HostTensor, axis: Exclude<Axis, 'rows'>): HostTensor;
  take(table: HostTensor, index: HostTensor): HostTensor;
  groupSlots(kind: 'mean' | 'sum' | 'max', x: HostTensor, groups: HostTensor, count: number): HostTensor;
  rank(x: HostTensor, over: 'row' | 'all'): HostTensor;
  pool(x: HostTensor, options: PoolOptions): HostTensor;
  normaliseRows(x: HostTensor, softmax: boolean): HostTensor;
  firstBad(x: HostTensor, atLeast: number): HostTensor;
  select(scores: HostTensor, budgets: HostTensor, masks: SlotMasks): HostTensor;
}
