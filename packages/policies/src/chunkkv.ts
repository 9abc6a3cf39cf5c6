import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { wholeUnits } from '@kv/selectors-whole-units';
import { chunks } from '@kv/units-chunks';

export interface ChunkkvOptions {
  /** Positions in a chunk. @defaultValue 10 */
  readonly size?: number;
  /** @defaultValue 64 */
  readonly window?: number;
  /** @defaultValue 5 */
  readonly kernel?: number;
}

/** ChunkKV: SnapKV's best chunks of positions stay whole, the same ones in every head of a layer. Liu et al. 2025, arXiv:2502.00299. */
export const chunkkv = ({ size = 10, window = 64, kernel = 5 }: ChunkkvOptions = {}): Policy => compose(snapkv({ window, kernel }), chunks({ size }), wholeUnits());
