import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { rarity as score } from '@kv/scorers-rarity';
import type { RarityOptions } from '@kv/scorers-rarity';
import { topK } from '@kv/selectors-top-k';

/** Von Restorff rarity alone: tokens whose id is rare in the context stay. The rarity term of CrystalCache, eq. 21. */
export const rarity = (options?: RarityOptions): Policy => compose(score(options), topK());
