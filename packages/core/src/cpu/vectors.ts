import type { Kernel, Products } from '../kernel.ts';
import type { Axis, PoolOptions, Reduction } from '../ops.ts';
import type { CpuTensor } from './dense.ts';
import type { Elements, Kind } from './elementwise.ts';

export interface Masks {
  readonly forced?: CpuTensor | undefined;
  readonly banned?: CpuTensor | undefined;
  readonly active?: CpuTensor | undefined;
}

/** The operations that an event spends its time in, on dimensions that fit. */
export interface Vectors {
  /** All rows to `rows`, neighbours together. */
  grouped(kind: Reduction, x: CpuTensor, rows: number): CpuTensor;
  /** One number for each element. */
  elementwise(kind: Kind, elements: Elements): CpuTensor;
  /** Products of many vectors, for operations and for references of kernels. */
  readonly products: Products;
  /** The implementation that computes a kernel. */
  reference(kernel: Kernel): Kernel['ref'];
  /** One axis to size 1; channels are dropped. */
  reduce(kind: Reduction, x: CpuTensor, axis: Exclude<Axis, 'rows'>): CpuTensor;
  take(table: CpuTensor, index: CpuTensor): CpuTensor;
  groupSlots(kind: 'mean' | 'sum' | 'max', x: CpuTensor, groups: CpuTensor, count: number): CpuTensor;
  rank(x: CpuTensor, over: 'row' | 'all'): CpuTensor;
  pool(x: CpuTensor, options: PoolOptions): CpuTensor;
  normaliseRows(x: CpuTensor, softmax: boolean): CpuTensor;
  firstBad(x: CpuTensor, atLeast: number): CpuTensor;
  select(scores: CpuTensor, budgets: CpuTensor, masks: Masks): CpuTensor;
}
