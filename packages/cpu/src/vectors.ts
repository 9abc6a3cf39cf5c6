import type { Kernel, Products, Axis, PoolOptions, Reduction } from '@kv/core';
import type { HostTensor } from '@kv/core/engine';
import type { Elements, ElementwiseKind } from './elementwise.ts';

export interface SlotMasks {
  readonly forced?: HostTensor | undefined;
  readonly banned?: HostTensor | undefined;
  readonly active?: HostTensor | undefined;
}

/** The operations that take most of an event's time, on dimensions that were checked. */
export interface Vectors {
  /** Reduces groups of consecutive rows, leaving `rows` rows. */
  grouped(kind: Reduction, x: HostTensor, rows: number): HostTensor;
  /** Computes one number for each element. */
  elementwise(kind: ElementwiseKind, elements: Elements): HostTensor;
  /** Products of many vectors, for operations and for references of kernels. */
  readonly products: Products;
  /** Returns the implementation of a kernel. */
  reference(kernel: Kernel): Kernel['ref'];
  /** Reduces one axis to size 1; channels are dropped. */
  reduce(kind: Reduction, x: HostTensor, axis: Exclude<Axis, 'rows'>): HostTensor;
  take(table: HostTensor, index: HostTensor): HostTensor;
  groupSlots(kind: 'mean' | 'sum' | 'max', x: HostTensor, groups: HostTensor, count: number): HostTensor;
  rank(x: HostTensor, over: 'row' | 'all'): HostTensor;
  pool(x: HostTensor, options: PoolOptions): HostTensor;
  normaliseRows(x: HostTensor, softmax: boolean): HostTensor;
  firstBad(x: HostTensor, atLeast: number): HostTensor;
  select(scores: HostTensor, budgets: HostTensor, masks: SlotMasks): HostTensor;
}
