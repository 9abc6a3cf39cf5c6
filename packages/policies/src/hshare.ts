import { compose, mandatory, view } from '@kv/core';
import type { Policy } from '@kv/core';
import { labels } from '@kv/scorers-retrieval';
import { topK } from '@kv/selectors-top-k';
import { sharedSets } from '@kv/sharing-hshare';

export interface HSharePolicyOptions {
  /** Slots that a query head sees, sinks and local window included. @defaultValue 128 */
  readonly slots?: number;
  /** @defaultValue 8 */
  readonly sinks?: number;
  /** @defaultValue 32 */
  readonly local?: number;
  /** Channels of the label scores. @defaultValue 32 */
  readonly channels?: number;
  /** Tokens that share a retrieval. @defaultValue 2 */
  readonly query?: number;
  /** Share of the query heads that use another's set. @defaultValue 0.5 */
  readonly heads?: number;
  /** Share of the layers that use another's sets. @defaultValue 0.5 */
  readonly layers?: number;
}

/**
 * HShare: Double Sparsity's sets, shared between tokens, layers and heads; hides, evicts nothing. ICLR 2025, with the
 * authors' 8 + 88 + 32 slots and half of the heads and layers.
 */
export const hshare = ({
  slots = 128,
  sinks = 8,
  local = 32,
  channels = 32,
  query = 2,
  heads = 0.5,
  layers = 0.5,
}: HSharePolicyOptions = {}): Policy =>
  view(
    compose(
      labels({ channels }),
      mandatory({ sinks, recent: local }),
      topK(),
      sharedSets({ query, heads, layers, sinks, local }),
    ),
    { budget: slots },
  );
