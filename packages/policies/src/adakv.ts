import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { adaKV } from '@kv/allocators-ada-kv';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

export interface AdakvOptions {
  /** @defaultValue 64 */
  readonly window?: number;
  /** @defaultValue 5 */
  readonly kernel?: number;
  /** Share of its budget that every head keeps for its own best slots. @defaultValue 0.2 */
  readonly safeguard?: number;
}

/** Ada-KV over SnapKV: the slots of a layer go to the best of all its heads. Feng et al. 2024, arXiv:2407.11550. */
export const adakv = ({ window = 64, kernel = 5, safeguard = 0.2 }: AdakvOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), adaKV({ safeguard }), topK());
