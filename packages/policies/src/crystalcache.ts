import { cadence, compose, mandatory, weighted } from '@kv/core';
import type { Policy } from '@kv/core';
import { rarity } from '@kv/scorers-rarity';
import { branchDissolution, breath, clip, crystallization, saliency, trunks } from '@kv/units-trunks';

export interface CrystalCacheOptions {
  /** Weight of content against structure. @defaultValue 1 */
  readonly alpha?: number;
  /** Most tokens of a trunk. @defaultValue 32 */
  readonly maxSize?: number;
  /** @defaultValue 4 */
  readonly sinks?: number;
  /** @defaultValue 128 */
  readonly recent?: number;
}

/**
 * CrystalCache: encoding impact of tokens, trunks of linked sentences, max(centrality, content), branch dissolution.
 *
 * @remarks CrystalCache, algorithm 2, prefill. Keeps up to two slots fewer than the budget. Costs the first layer once
 * more.
 */
export function crystalcache({ alpha = 1, maxSize = 32, sinks = 4, recent = 128 }: CrystalCacheOptions = {}): Policy {
  return compose(
    weighted([10, saliency()], [10, rarity()]),
    clip(),
    mandatory({ sinks, recent }),
    trunks({ maxSize }),
    crystallization({ alpha }),
    branchDissolution(),
  );
}

export interface CrystalCacheBreathOptions extends CrystalCacheOptions {
  /** Generated tokens between two breaths. @defaultValue 64 */
  readonly interval?: number;
}

/**
 * CrystalCache with its breath cycle: every 64 generated tokens trunks that matter now pull related ones up, and the
 * cache is dissolved to its budget again, nothing protected.
 *
 * @remarks CrystalCache, section 3.8, which its authors never ran; the budget is the prompt's.
 */
export function crystalcacheBreath({
  alpha = 1,
  maxSize = 32,
  sinks = 4,
  recent = 128,
  interval = 64,
}: CrystalCacheBreathOptions = {}): Policy {
  const impact = compose(weighted([10, saliency()], [10, rarity()]), clip(), mandatory({ sinks, recent }));
  return compose(
    impact,
    trunks({ maxSize, run: interval }),
    breath({ interval, alpha }),
    branchDissolution(),
    cadence({ every: interval }),
  );
}
