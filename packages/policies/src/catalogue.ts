import type { Policy } from '@kv/core';
import { adakv } from './adakv.ts';
import { alpha } from './alpha.ts';
import { attendedSentences } from './attended-sentences.ts';
import { cap } from './cap.ts';
import { chunkkv, entropyChunkkv } from './chunkkv.ts';
import { criticalkv } from './criticalkv.ts';
import { cpe } from './cpe.ts';
import { crystalcache, crystalcacheBreath } from './crystalcache.ts';
import { cur } from './cur.ts';
import { dropkv } from './dropkv.ts';
import { finch } from './finch.ts';
import { full } from './full.ts';
import { fullTa } from './full-ta.ts';
import { h2o } from './h2o.ts';
import { h2oCaote } from './h2o-caote.ts';
import { h2oFastCaote } from './h2o-fast-caote.ts';
import { keydiff } from './keydiff.ts';
import { h2oJoint } from './h2o-joint.ts';
import { knorm } from './knorm.ts';
import { hshare } from './hshare.ts';
import { kvcompose } from './kvcompose.ts';
import { kvzip, kvzipModelWide } from './kvzip.ts';
import { lagkv } from './lagkv.ts';
import { observed } from './observed.ts';
import { pieces } from './pieces.ts';
import type { OptionValues } from './pieces.ts';
import { pyramidal } from './pyramidal.ts';
import { pyramidkv } from './pyramidkv.ts';
import { qfilter } from './qfilter.ts';
import { random } from './random.ts';
import { rarity } from './rarity.ts';
import { snapkv } from './snapkv.ts';
import { snapkvCaote } from './snapkv-caote.ts';
import { snapkvFastCaote } from './snapkv-fast-caote.ts';
import {
  AKULOV,
  CAI,
  CAI25,
  CC,
  CHARI,
  CORALLO,
  DEVOTO,
  DEVOTO25,
  DROPKV,
  FENG24,
  FENG25,
  FENG25D,
  GODEY,
  GOEL,
  HSHARE,
  KIM,
  KVPRESS,
  LI,
  LIANG,
  LIU,
  LIU23,
  MAO,
  OREN,
  PARK,
  PRHS,
  QIN,
  SCD,
  SENGUPTA,
  TA,
  TANG,
  XIAO,
  YANG,
  YANG26,
  ZHANG,
  ZHOU,
} from './sources.ts';
import { expectedAttention, expectedAttentionStats } from './expected-attention.ts';
import { compactor } from './compactor.ts';
import { leverage } from './leverage.ts';
import { cake } from './cake.ts';
import { dynamickv } from './dynamickv.ts';
import { rkv } from './rkv.ts';
import { defensivekv, layerDefensivekv } from './defensivekv.ts';
import { scissorhands } from './scissorhands.ts';
import { snapkvMerge } from './snapkv-merge.ts';
import { quest } from './quest.ts';
import { doubleSparsity } from './double-sparsity.ts';
import { topKOracle } from './top-k-oracle.ts';
import { streaming, streamingRerotated } from './streaming.ts';
import { taFast } from './ta-fast.ts';
import { alphaTriattention, triattention } from './triattention.ts';
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

const entry = <O>(
  make: (options?: O) => Policy,
  about: string,
  source: string,
  options: OptionValues = {},
): PolicyEntry => ({ make: (given) => make(given as O | undefined), about, source, options });
const like = (piece: string): OptionValues => pieces[piece].options;
const PYRAMID = { window: 64, kernel: 5, beta: 20 };

/** Every policy of this package under the name that goldens, reports and the command line use. */
export const policies: Readonly<Record<string, PolicyEntry>> = {
  full: entry(full, 'Full cache: evicts nothing', 'the unit of compose'),
  streaming: entry(streaming, 'Sinks, then the most recent positions', XIAO, like('streaming')),
  streamingRerotated: entry(
    streamingRerotated,
    'The same at positions within the cache: keys are turned after every eviction',
    XIAO,
    like('streaming'),
  ),
  random: entry(random, 'A hash of seed, layer, head and position', 'the floor for comparison', like('random')),
  knorm: entry(knorm, 'Keys of small norm', DEVOTO),
  h2o: entry(h2o, 'Attention summed over all queries, and a recent window', ZHANG, like('h2o')),
  tova: entry(tova, "The newest query's attention, one set a layer", OREN, like('tova')),
  observed: entry(observed, 'Mean attention of the queries that could see a slot', KVPRESS, like('observed')),
  snapkv: entry(snapkv, 'Pooled attention of the last queries (window <= budget)', LI, like('snapkv')),
  pyramidkv: entry(pyramidkv, "SnapKV under PyramidKV's budgets, kvpress' rule", CAI, PYRAMID),
  pyramidal: entry(pyramidal, "SnapKV under PyramidKV's budgets, the authors' line", CAI, PYRAMID),
  attendedSentences: entry(attendedSentences, 'Whole sentences that the question looks at', 'studies/smollm2-needle', {
    window: 8,
    maxSize: 32,
    sinks: 4,
  }),
  chunkkv: entry(chunkkv, "SnapKV's best chunks, whole and alike in every head", LIU, {
    size: 10,
    window: 64,
    kernel: 5,
  }),
  entropyChunkkv: entry(entropyChunkkv, 'Coherent chunks whole, spiky ones cut to their best slots', KVPRESS, {
    size: 10,
    low: 4,
    window: 64,
    kernel: 5,
  }),
  adakv: entry(adakv, 'SnapKV, the slots of a layer shared between its heads', FENG24, {
    window: 64,
    kernel: 5,
    safeguard: 0.2,
  }),
  criticalkv: entry(criticalkv, 'SnapKV for half, then scores times the size of the value in the output', FENG25, {
    window: 64,
    kernel: 5,
    first: 0.5,
  }),
  keydiff: entry(keydiff, 'Keys unlike the others of their head', PARK),
  lagkv: entry(lagkv, 'Keys and values uneven against the next slots', LIANG, like('lagkv')),
  cur: entry(cur, 'Large keys with large values within their window', SENGUPTA, like('cur')),
  qfilter: entry(qfilter, 'Keys along the main direction of queries, by calibrated filters', GODEY),
  kvzip: entry(kvzip, 'What repeating the context looks at: a second pass', KIM, like('kvzip')),
  kvzipModelWide: entry(
    kvzipModelWide,
    'The same, every pair against those of all layers and heads',
    KIM,
    like('kvzip'),
  ),
  kvcompose: entry(kvcompose, 'What reading the context again looks at, layers by composite tokens', AKULOV),
  expectedAttention: entry(
    expectedAttention,
    'What a distribution of future queries would look at',
    DEVOTO25,
    like('expectedAttention'),
  ),
  expectedAttentionStats: entry(
    expectedAttentionStats,
    'The same by calibrated statistics of queries',
    DEVOTO25,
    like('expectedAttentionStats'),
  ),
  cap: entry(cap, 'Values that add most to the capacity of their head', YANG26, like('cap')),
  compactor: entry(compactor, 'Leverage of the keys and non-causal attention in chunks', CHARI, {
    chunk: 256,
    window: 4096,
    sinks: 8,
    recent: 4,
  }),
  leverage: entry(leverage, 'Keys that have a direction to themselves', CHARI, like('leverage')),
  cake: entry(cake, 'Layers by entropy and variance of their attention', QIN, like('cake')),
  dynamickv: entry(dynamickv, 'SnapKV, layers by their share of the best scores', ZHOU, {
    window: 32,
    kernel: 7,
    most: 10,
  }),
  rkv: entry(rkv, 'Importance against redundancy', CAI25, { window: 8, kernel: 7, lambda: 0.1 }),
  defensivekv: entry(defensivekv, 'The worst case over queries and heads, heads compared', FENG25D, like('defensive')),
  layerDefensivekv: entry(layerDefensivekv, 'The same, layers compared too', FENG25D, like('defensive')),
  finch: entry(finch, 'What the question looks at, keys turned to positions within the cache', CORALLO, like('finch')),
  dropkv: entry(dropkv, 'Exact eviction errors of the last queries, squared and summed', DROPKV, like('dropkv')),
  scissorhands: entry(scissorhands, 'Above the mean weight in most of the last steps', LIU23, like('scissorhands')),
  snapkvMerge: entry(snapkvMerge, 'SnapKV, the evicted folded into what stays', KVPRESS, {
    window: 64,
    kernel: 5,
    threshold: 0,
  }),
  quest: entry(quest, 'Hides all but the pages with the highest bounds', TANG, { page: 16, slots: 1024 }),
  doubleSparsity: entry(doubleSparsity, 'Hides all but the best by a few channels', YANG, {
    channels: 16,
    window: 32,
    slots: 1024,
  }),
  hshare: entry(hshare, 'Double Sparsity, its sets shared between tokens, layers and heads', HSHARE, {
    slots: 128,
    sinks: 8,
    local: 32,
    channels: 32,
    query: 2,
    heads: 0.5,
    layers: 0.5,
  }),
  topKOracle: entry(topKOracle, 'Hides all but the true top-k of every query: a yardstick', PRHS, { slots: 1024 }),
  snapkvCaote: entry(snapkvCaote, 'SnapKV, then the eviction error CAOTE', GOEL, like('snapkv')),
  snapkvFastCaote: entry(snapkvFastCaote, 'SnapKV, then FastCAOTE', GOEL, like('snapkv')),
  h2oCaote: entry(h2oCaote, 'H2O, then the eviction error CAOTE', GOEL, like('h2o')),
  h2oFastCaote: entry(h2oFastCaote, 'H2O, then FastCAOTE', GOEL, like('h2o')),
  tovaCaote: entry(tovaCaote, 'TOVA, then the eviction error CAOTE', GOEL, like('tova')),
  tovaFastCaote: entry(tovaFastCaote, 'TOVA, then FastCAOTE', GOEL, like('tova')),
  h2oJoint: entry(h2oJoint, 'H2O, evicted by the exact error of all that left', `${GOEL}, eq. 24`, like('h2o')),
  alpha: entry(alpha, 'SnapKV, each pick less its likeness to what is kept', `${SCD}, eq. 2`, {
    lambda: 0.5,
    window: 64,
    kernel: 5,
  }),
  triattention: entry(
    triattention,
    'Keys that fare well with the queries to come, by calibrated statistics',
    MAO,
    like('triattention'),
  ),
  alphaTriattention: entry(
    alphaTriattention,
    'TriAttention, each pick less its likeness to what is kept',
    `${SCD}, eq. 2`,
    { lambda: 0.5, horizon: 65_536 },
  ),
  crystalcache: entry(crystalcache, 'Whole trunks of sentences by centrality or content (recent <= budget)', CC, {
    alpha: 1,
    maxSize: 32,
    sinks: 4,
    recent: 128,
  }),
  crystalcacheBreath: entry(
    crystalcacheBreath,
    'CrystalCache that dissolves again while it generates',
    `${CC}, section 3.8`,
    { alpha: 1, maxSize: 32, sinks: 4, recent: 128, interval: 64 },
  ),
  cpe: entry(cpe, 'Evicts nothing: shared retrieval, shrinking windows, frozen early tokens', PRHS, {
    budget: 128,
    sinks: 8,
    local: 32,
    block: 8,
    threshold: 0.8,
    compare: 'queries',
    phi: 0.7,
    psi: 0.5,
  }),
  rarity: entry(rarity, 'Tokens whose id is rare in the context (Von Restorff)', `${CC}, eq. 21`, like('rarity')),
  fullTa: entry(
    fullTa,
    'Attention, recency, structure, past attention and frequency beside the vouchers',
    `${TA}, eq. 1`,
    { reach: 6, slots: 4, strength: 15, rate: 0.9, anchors: 'regex' },
  ),
  taFast: entry(
    taFast,
    'Values after anchors such as `password:` are sponsored; anchors=regex, semantic, embedding or learned',
    `${TA}, eq. 3`,
    { reach: 6, slots: 4, strength: 15, anchors: 'regex' },
  ),
};
