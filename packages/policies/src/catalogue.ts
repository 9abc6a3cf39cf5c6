import type { Policy } from '@kv/core';
import { full } from './full.ts';
import { h2o } from './h2o.ts';
import { h2oCaote } from './h2o-caote.ts';
import { h2oFastCaote } from './h2o-fast-caote.ts';
import { knorm } from './knorm.ts';
import { observed } from './observed.ts';
import { pieces } from './pieces.ts';
import type { OptionValues } from './pieces.ts';
import { pyramidal } from './pyramidal.ts';
import { pyramidkv } from './pyramidkv.ts';
import { random } from './random.ts';
import { rarity } from './rarity.ts';
import { snapkv } from './snapkv.ts';
import { snapkvCaote } from './snapkv-caote.ts';
import { snapkvFastCaote } from './snapkv-fast-caote.ts';
import { CAI, CC, DEVOTO, GOEL, KVPRESS, LI, OREN, TA, XIAO, ZHANG } from './sources.ts';
import { streaming } from './streaming.ts';
import { taFast } from './ta-fast.ts';
import { tova } from './tova.ts';
import { tovaCaote } from './tova-caote.ts';
import { tovaFastCaote } from './tova-fast-caote.ts';

/** A policy as a list of them shows it: what it is, where it comes from, and its options with their defaults. */
export interface PolicyEntry {
  /** @throws KvError for an option that the policy's pieces refuse. */
  readonly make: (options?: OptionValues) => Policy;
  readonly about: string;
  readonly source: string;
  /** Defaults by name. */
  readonly options: OptionValues;
}

const entry = <O>(make: (options?: O) => Policy, about: string, source: string, options: OptionValues = {}): PolicyEntry =>
  ({ make: (given) => make(given as O | undefined), about, source, options });
const like = (piece: string): OptionValues => pieces[piece]!.options;
const PYRAMID = { window: 64, kernel: 5, beta: 20 };

/** Every policy of this package under the name that goldens, reports and the command line use. */
export const policies: Readonly<Record<string, PolicyEntry>> = {
  full: entry(full, 'Full cache: evicts nothing', 'the unit of compose'),
  streaming: entry(streaming, 'Sinks, then the most recent positions', XIAO, like('streaming')),
  random: entry(random, 'A hash of seed, layer, head and position', 'the floor for comparison', like('random')),
  knorm: entry(knorm, 'Keys of small norm', DEVOTO),
  h2o: entry(h2o, 'Attention summed over all queries, and a recent window', ZHANG, like('h2o')),
  tova: entry(tova, "The newest query's attention, one set a layer", OREN, like('tova')),
  observed: entry(observed, 'Mean attention of the queries that could see a slot', KVPRESS),
  snapkv: entry(snapkv, 'Pooled attention of the last queries (window <= budget)', LI, like('snapkv')),
  pyramidkv: entry(pyramidkv, "SnapKV under PyramidKV's budgets, kvpress' rule", CAI, PYRAMID),
  pyramidal: entry(pyramidal, "SnapKV under PyramidKV's budgets, the authors' line", CAI, PYRAMID),
  snapkvCaote: entry(snapkvCaote, 'SnapKV, then the eviction error CAOTE', GOEL, like('snapkv')),
  snapkvFastCaote: entry(snapkvFastCaote, 'SnapKV, then FastCAOTE', GOEL, like('snapkv')),
  h2oCaote: entry(h2oCaote, 'H2O, then the eviction error CAOTE', GOEL, like('h2o')),
  h2oFastCaote: entry(h2oFastCaote, 'H2O, then FastCAOTE', GOEL, like('h2o')),
  tovaCaote: entry(tovaCaote, 'TOVA, then the eviction error CAOTE', GOEL, like('tova')),
  tovaFastCaote: entry(tovaFastCaote, 'TOVA, then FastCAOTE', GOEL, like('tova')),
  rarity: entry(rarity, 'Tokens whose id is rare in the context (Von Restorff)', `${CC}, eq. 21`),
  taFast: entry(taFast, 'Values after anchors such as `password:` are sponsored', `${TA}, eq. 3`, { reach: 6, slots: 4, strength: 15 }),
};
