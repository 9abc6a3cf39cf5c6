import type { Policy } from '@kv/core';
import { full } from './full.ts';
import { h2o } from './h2o.ts';
import { h2oCaote } from './h2o-caote.ts';
import { h2oFastCaote } from './h2o-fast-caote.ts';
import { knorm } from './knorm.ts';
import { observed } from './observed.ts';
import { pyramidal } from './pyramidal.ts';
import { pyramidkv } from './pyramidkv.ts';
import { random } from './random.ts';
import { rarity } from './rarity.ts';
import { snapkv } from './snapkv.ts';
import { snapkvCaote } from './snapkv-caote.ts';
import { snapkvFastCaote } from './snapkv-fast-caote.ts';
import { streaming } from './streaming.ts';
import { taFast } from './ta-fast.ts';
import { tova } from './tova.ts';
import { tovaCaote } from './tova-caote.ts';
import { tovaFastCaote } from './tova-fast-caote.ts';

export type OptionValue = number | string | boolean;
/** A policy as a list of them shows it: what it is, where it comes from, and its options with their defaults. */
export interface PolicyEntry {
  /** @throws KvError for an option that the policy's pieces refuse. */
  readonly make: (options?: Readonly<Record<string, OptionValue>>) => Policy;
  readonly about: string;
  readonly source: string;
  /** Defaults by name. */
  readonly options: Readonly<Record<string, OptionValue>>;
}

const entry = <O>(make: (options?: O) => Policy, about: string, source: string, options: Readonly<Record<string, OptionValue>> = {}): PolicyEntry =>
  ({ make: (given) => make(given as O | undefined), about, source, options });

const SNAPKV = { window: 64, kernel: 5, pooling: 'mean' }, PYRAMID = { window: 64, kernel: 5, beta: 20 };
const H2O = { recent: 0.5, over: 'accumulated' }, TOVA = { forceLast: true };
const GOEL = 'Goel et al. 2025, arXiv:2504.14051';

/** Every policy of this package under the name that goldens, reports and the command line use. */
export const policies: Readonly<Record<string, PolicyEntry>> = {
  full: entry(full, 'Full cache: evicts nothing', 'the unit of compose'),
  streaming: entry(streaming, 'Sinks, then the most recent positions', 'Xiao et al. 2023, arXiv:2309.17453', { sinks: 4 }),
  random: entry(random, 'A hash of seed, layer, head and position', 'the floor for comparison', { seed: 0 }),
  knorm: entry(knorm, 'Keys of small norm', 'Devoto et al. 2024, arXiv:2406.11430'),
  h2o: entry(h2o, 'Attention summed over all queries, and a recent window', 'Zhang et al. 2023, arXiv:2306.14048', H2O),
  tova: entry(tova, "The newest query's attention, one set a layer", 'Oren et al. 2024, arXiv:2401.06104', TOVA),
  observed: entry(observed, 'Mean attention of the queries that could see a slot', "kvpress' ObservedAttentionPress"),
  snapkv: entry(snapkv, 'Pooled attention of the last queries (window <= budget)', 'Li et al. 2024, arXiv:2404.14469', SNAPKV),
  pyramidkv: entry(pyramidkv, "SnapKV under PyramidKV's budgets, kvpress' rule", 'Cai et al. 2024, arXiv:2406.02069', PYRAMID),
  pyramidal: entry(pyramidal, "SnapKV under PyramidKV's budgets, the authors' line", 'Cai et al. 2024, arXiv:2406.02069', PYRAMID),
  snapkvCaote: entry(snapkvCaote, 'SnapKV, then the eviction error CAOTE', GOEL, SNAPKV),
  snapkvFastCaote: entry(snapkvFastCaote, 'SnapKV, then FastCAOTE', GOEL, SNAPKV),
  h2oCaote: entry(h2oCaote, 'H2O, then the eviction error CAOTE', GOEL, H2O),
  h2oFastCaote: entry(h2oFastCaote, 'H2O, then FastCAOTE', GOEL, H2O),
  tovaCaote: entry(tovaCaote, 'TOVA, then the eviction error CAOTE', GOEL, TOVA),
  tovaFastCaote: entry(tovaFastCaote, 'TOVA, then FastCAOTE', GOEL, TOVA),
  rarity: entry(rarity, 'Tokens whose id is rare in the context (Von Restorff)', 'CrystalCache, eq. 21'),
  taFast: entry(taFast, 'Values after anchors such as `password:` are sponsored', 'Transactional Attention, eq. 3', { reach: 6, slots: 4, strength: 15 }),
};
