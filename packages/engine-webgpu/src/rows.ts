import { sizeOf } from '@kv/core/engine';
import type { Tensor } from '@kv/core';

/**
 * Rows inside a tensor of f32 numbers: row r is the `width` numbers from element `at + r * stride`. Columns are such a
 * view, so that nothing is copied.
 */
export interface DeviceRowView {
  readonly tensor: Tensor;
  readonly at: number;
  readonly stride: number;
  readonly width: number;
}

/** Rows that fill a tensor `[m, width]`. */
export const rowsOf = (tensor: Tensor, width: number): DeviceRowView => ({ tensor, at: 0, stride: width, width });

/** Columns `[from, from + width)` of rows. */
export const columns = ({ tensor, at, stride }: DeviceRowView, from: number, width: number): DeviceRowView => ({
  tensor,
  at: at + from,
  stride,
  width,
});

/** The tensor in the shape of m rows, which are what is read of it. */
export const readRows = ({ tensor, width }: DeviceRowView, m: number): Tensor => ({ ...tensor, shape: [m, width] });

/** Whether m rows are their tensor, no more and no less. */
export const isWhole = ({ tensor, at, stride, width }: DeviceRowView, m: number): boolean =>
  at === 0 && stride === width && sizeOf(tensor.shape) === m * width;
