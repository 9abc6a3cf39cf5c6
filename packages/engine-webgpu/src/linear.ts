import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { dispatch } from '@kv/gpu';
import { matmul, MATMUL_TILE } from './kernels/matmul.wgsl.ts';
import { matvec, MATVEC_OUTPUTS } from './kernels/matvec.wgsl.ts';
import { readRows, type DeviceRowView } from './rows.ts';
import type { DeviceMatrix } from './weights/device-matrix.ts';
import { octetsOf } from './weights/repack.ts';

/**
 * Maximum rows that are each computed as if alone, over weights that are read once; more rows are computed in tiles of
 * 64.
 */
export const FEW_ROWS = 8;

/** Records `residual + (x Wᵀ + bias)` of m rows to `out [m, outputs]`, one dispatch per part of the weight. */
export function encodeLinear(
  commands: Commands,
  x: DeviceRowView,
  m: number,
  { inputs, outputs, parts, half }: DeviceMatrix,
  out: Tensor,
  bias?: Tensor,
  residual?: DeviceRowView,
): void {
  const whole = inputs % 8 === 0 && x.at % 4 === 0 && x.stride % 4 === 0,
    end = { bias: bias !== undefined, residual: residual !== undefined };
  for (const { form, from, rows, weights, scales } of parts) {
    const few = m <= FEW_ROWS;
    dispatch(
      commands,
      few ? matvec(form, whole, end, 2 ** Math.ceil(Math.log2(Math.max(1, m)))) : matmul(form, whole, end, half),
      {
        x: readRows(x, m),
        weights,
        scales,
        bias,
        residual: residual && readRows(residual, m),
        out: parts.length === 1 ? out : { ...out, shape: [m, rows] },
      },
      {
        rows: m,
        outputs: rows,
        inputs,
        octets: octetsOf(inputs),
        x_at: x.at,
        x_stride: x.stride,
        out_from: from,
        out_stride: outputs,
        residual_at: residual?.at ?? 0,
        residual_stride: residual?.stride ?? 0,
      },
      few ? Math.ceil(rows / MATVEC_OUTPUTS) : Math.ceil(m / MATMUL_TILE) * Math.ceil(rows / MATMUL_TILE),
    );
  }
}
