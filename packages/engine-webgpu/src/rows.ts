import { sizeOf } from '@kv/core/engine';
import type { Tensor } from '@kv/core';

/**
 * Rows inside a tensor of f32 numbers: row r is the `width` numbers from element `at + r * stride`. Columns are such a
 * view, so that nothing is copied.
 */
export interface DeviceRowView {
  readonly tensor: Tensor;
  /** First number of the view in a row. */
  readonly at: number;
  /** Numbers from one row to the next. */
  readonly stride: number;
  /** Numbers of the view in a row. */
  readonly width: number;
}

/** Returns rows that fill a tensor `[m, width]`. */
export const rowsOf = (tensor: Tensor, width: number): DeviceRowView => ({ tensor, at: 0, stride: width, width });

/** Returns columns `[from, from + width)` of rows. */
export const columns = ({ tensor, at, stride }: DeviceRowView, from: number, width: number): DeviceRowView => ({
  tensor,
  at: at + from,
  stride,
  width,
});

/** Returns the tensor in the shape of m rows: only these are read. */
export const readRows = ({ tensor, width }: DeviceRowView, m: number): Tensor => ({ ...tensor, shape: [m, width] });

/** Returns whether m rows are exactly their whole tensor. */
export const isWhole = ({ tensor, at, stride, width }: DeviceRowView, m: number): boolean =>
  at === 0 && stride === width && sizeOf(tensor.shape) === m * width;
