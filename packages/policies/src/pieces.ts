import {
  cadence,
  log1p,
  mandatory,
  max,
  minMax,
  normalize,
  perLayer,
  pool,
  reduceHeads,
  rerotate,
  softmax,
  sum,
  view,
  weighted,
  zScore,
} from '@kv/core';
import type { Piece, Scored } from '@kv/core';
import { adaKV } from '@kv/allocators-ada-kv';
import { duoAttention, given, lukv } from '@kv/allocators-given';
import { mass } from '@kv/allocators-mass';
import { cake, cakeScores, compositeTokens, dynamickv, modelWide } from '@kv/allocators-preference';
import { protectedPartition } from '@kv/allocators-protected-partition';
import { pyramidal, pyramidkv } from '@kv/allocators-pyramidal';
import { simlayerkv, threshold } from '@kv/allocators-threshold';
import { uniform } from '@kv/allocators-uniform';
import { etf, psaw } from '@kv/schedules-prhs';
import { h2o, observed, snapkv, streaming, tova } from '@kv/scorers-attention';
import { caote, dropkv, fastCaote } from '@kv/scorers-caote';
import { byEviction, leverage, noncausal } from '@kv/scorers-compactor';
import { cap, expectedAttention, expectedAttentionStats } from '@kv/scorers-expected-attention';
import { cur, keydiff, lagkv, qfilter } from '@kv/scorers-keys';
import { knorm } from '@kv/scorers-knorm';
import { random } from '@kv/scorers-random';
import { frequency, rarity } from '@kv/scorers-rarity';
import { kvcompose, kvzip } from '@kv/scorers-reconstruction';
import { exact, labels, pageBounds } from '@kv/scorers-retrieval';
import { pension, recency } from '@kv/scorers-sponsorship';
import { triattention } from '@kv/scorers-triattention';
import { defensive, finch, importance, redundancy, scissorhands } from '@kv/scorers-window';
import { diversity } from '@kv/selectors-diversity';
import { jointEviction } from '@kv/selectors-joint-eviction';
import { quota } from '@kv/selectors-quota';
import { topK } from '@kv/selectors-top-k';
import { wholeUnits } from '@kv/selectors-whole-units';
import { cis, dots } from '@kv/sharing-cis';
import { sharedSets } from '@kv/sharing-hshare';
import { criticalkv, outputShare } from '@kv/transforms-critical';
import { cam, merge } from '@kv/transforms-merging';
import { chunks, entropyGate } from '@kv/units-chunks';
import {
  branchDissolution,
  breath,
  centrality,
  clip,
  coverage,
  crystallization,
  saliency,
  sentences,
  standout,
  trunks,
} from '@kv/units-trunks';
import { sponsorship, structure } from './anchors.ts';
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
  DMS,
  LI,
  LIANG,
  LIU,
  LIU23,
  LUKV,
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
  XIAO24,
  YANG,
  YANG26,
  ZHANG,
  ZHANG24,
  ZHANG24M,
  ZHOU,
} from './sources.ts';

export type OptionValue = number | string | boolean;
export type OptionValues = Readonly<Record<string, OptionValue>>;
export type AnyScorer = Piece<'start', Scored>;
/** A scorer inside another piece, with its weight. */
export type Term = readonly [weight: number, scorer: AnyScorer];
/** A piece as a list of them shows it, and as its label is read back. */
export interface PieceEntry {
  /** @throws KvError for an option that the piece refuses. */
  readonly make: (options?: OptionValues, terms?: readonly Term[]) => Piece;
  readonly source: string;
  /** Defaults by name. */
  readonly options: OptionValues;
  /**
   * It stands around other scorers: any number, any number with weights, or the one under the name `by`, or, around a
   * whole policy, `of`.
   */
  readonly around?: 'scorers' | 'weighted' | 'by' | 'of';
}

const entry = <O>(make: (options?: O) => Piece, source: string, options: OptionValues = {}): PieceEntry => ({
  make: (given) => make(given as O | undefined),
  source,
  options,
});
const around = (
  kind: 'scorers' | 'weighted' | 'by' | 'of',
  make: (terms: readonly Term[], options: OptionValues) => Piece,
  source: string,
  options: OptionValues = {},
): PieceEntry => ({ make: (given = {}, terms = []) => make(terms, given), source, options, around: kind });
const scorers = (terms: readonly Term[]): readonly AnyScorer[] => terms.map(([, scorer]) => scorer);
const CORE = '@kv/core';

/** The pieces that this package composes from and core's own, under the names that labels use. */
export const pieces: Readonly<Record<string, PieceEntry>> = {
  streaming: entry(streaming, XIAO, { sinks: 4 }),
  snapkv: entry(snapkv, LI, { window: 64, kernel: 5, pooling: 'mean' }),
  h2o: entry(h2o, ZHANG, { recent: 0.5, over: 'accumulated', rows: 'query' }),
  tova: entry(tova, OREN, { forceLast: true }),
  observed: entry(observed, KVPRESS, { rows: 'query' }),
  knorm: entry(knorm, DEVOTO),
  keydiff: entry(keydiff, PARK),
  lagkv: entry(lagkv, LIANG, { sinks: 4, lag: 128, cross: false }),
  cur: entry(cur, SENGUPTA, { sinks: 4, window: 16, of: 'product' }),
  qfilter: entry(qfilter, GODEY),
  kvzip: entry(kvzip, KIM, { sinks: 4 }),
  kvcompose: entry(kvcompose, AKULOV),
  expectedAttention: entry(expectedAttention, DEVOTO25, {
    window: 1024,
    future: 512,
    sinks: 4,
    covariance: true,
    valueNorm: true,
    epsilon: 0,
  }),
  expectedAttentionStats: entry(expectedAttentionStats, DEVOTO25, {
    future: 512,
    sinks: 4,
    covariance: true,
    valueNorm: true,
    epsilon: 0,
  }),
  cap: entry(cap, YANG26, { tau: 5, window: 1024, future: 512, sinks: 4 }),
  leverage: entry(leverage, CHARI, { jitter: 0.01 }),
  noncausal: entry(noncausal, CHARI, { chunk: 256, window: 4096, kernel: 3 }),
  importance: entry(importance, CAI25, { window: 8, kernel: 7 }),
  redundancy: entry(redundancy, CAI25, { near: 0.5 }),
  defensive: entry(defensive, FENG25D, { window: 32, kernel: 5 }),
  finch: entry(finch, CORALLO, { question: 64 }),
  dropkv: entry(dropkv, DROPKV, { window: 32 }),
  scissorhands: entry(scissorhands, LIU23, { window: 64, recent: 10 }),
  cakeScores: entry(cakeScores, QIN, { window: 32, gamma: 200, kernel: 5 }),
  triattention: entry(triattention, MAO, { horizon: 65_536 }),
  pageBounds: entry(pageBounds, TANG, { page: 16 }),
  labels: entry(labels, YANG, { channels: 16, window: 32 }),
  exact: entry(exact, PRHS),
  random: entry(random, 'the floor for comparison', { seed: 0 }),
  rarity: entry(rarity, `${CC}, eq. 21`, { form: 'log' }),
  saliency: entry(saliency, `${CC}, eq. 11`),
  dots: entry(dots, `${PRHS}, section IV-A`),
  frequency: entry(frequency, `${TA}, eq. 1`),
  recency: entry(recency, `${TA}, eq. 1`),
  structure: entry(structure, `${TA}, eq. 1`, { anchors: 'regex' }),
  pension: entry(pension, `${TA}, eq. 1`, { rate: 0.9 }),
  sponsorship: entry(sponsorship, `${TA}, eq. 2`, { reach: 6, strength: 15, decay: 0.9, anchors: 'regex' }),
  sum: around('scorers', (terms) => sum(...scorers(terms)), CORE),
  max: around('scorers', (terms) => max(...scorers(terms)), CORE),
  weighted: around('weighted', (terms) => weighted(...terms), CORE),
  caote: entry(caote, `${GOEL}, eq. 6`, { square: false }),
  fastCaote: entry(fastCaote, `${GOEL}, eq. 8`),
  outputShare: entry(outputShare, FENG25D),
  byEviction: entry(byEviction, CHARI),
  criticalkv: entry(criticalkv, FENG25, { first: 0.5, epsilon: 1e-4 }),
  entropyGate: entry(entropyGate, `${LIU}, ${KVPRESS}'s gate`, { size: 10, low: 4 }),
  pool: entry(pool, CORE, { kernel: 5, kind: 'mean', except: 0 }),
  normalize: entry(normalize, CORE),
  minMax: entry(minMax, CORE),
  zScore: entry(zScore, CORE, { over: 'row' }),
  softmax: entry(softmax, CORE),
  log1p: entry(log1p, CORE),
  perLayer: entry(perLayer, CORE),
  reduceHeads: entry(reduceHeads, CORE, { kind: 'mean' }),
  mandatory: entry(mandatory, CORE, { sinks: 4, recent: 0 }),
  clip: entry(clip, `${CC}, eq. 22`, { low: 0.1, high: 20 }),
  coverage: entry(coverage, `${CC}, section 8`, { share: 0.1 }),
  cadence: entry(
    (o: { block?: number; every?: number } = {}) =>
      cadence({ ...(o.block && { block: o.block }), ...(o.every && { every: o.every }) }),
    CORE,
    { block: 0, every: 0 },
  ),
  uniform: entry(uniform, 'what an engine starts from'),
  given: entry(given, 'by hand', { shares: '1' }),
  pyramidal: entry(pyramidal, CAI, { beta: 20 }),
  pyramidkv: entry(pyramidkv, `${CAI}, ${KVPRESS}'s rule`, { window: 64, beta: 20 }),
  cake: entry(cake, QIN, { window: 32, tau1: 1, tau2: 1 }),
  dynamickv: entry(dynamickv, ZHOU, { window: 32, most: 10 }),
  compositeTokens: entry(compositeTokens, AKULOV),
  modelWide: entry(modelWide, `${KIM}; ${FENG25D}`),
  lukv: entry(lukv, LUKV),
  duoAttention: entry(duoAttention, XIAO24, { share: 0.5, slots: 384, scores: '' }),
  simlayerkv: entry(simlayerkv, ZHANG24, { threshold: 0.9, sinks: 4, recent: 1024, last: 1 }),
  adaKV: entry(adaKV, FENG24, { safeguard: 0.2 }),
  mass: entry(mass, `${PRHS}, Lemma 1`, { epsilon: 0.05 }),
  threshold: entry(threshold, DMS, { at: 0, window: 128 }),
  protectedPartition: around(
    'by',
    (terms, options) => protectedPartition(scorers(terms)[0], options),
    `${TA}, section 3.3`,
    { slots: 4 },
  ),
  chunks: entry(chunks, LIU, { size: 10, shared: true }),
  quota: entry(quota, CORALLO),
  wholeUnits: entry(wholeUnits, LIU, { last: 'drop' }),
  sentences: entry(sentences, `${CC}, section 3.3`, { maxSize: 0 }),
  trunks: entry(trunks, `${CC}, section 3.3`, { maxSize: 32, merge: 0.3, run: 64 }),
  centrality: entry(centrality, `${CC}, eq. 27`),
  standout: entry(standout, `${CC}, eq. 28`),
  crystallization: entry(crystallization, `${CC}, eq. 29`, { alpha: 1 }),
  breath: entry(breath, `${CC}, section 3.8`, {
    interval: 64,
    alpha: 1,
    decay: 0.05,
    hops: 2,
    gain: 0.15,
    bond: 0.05,
    fade: 0.99,
  }),
  branchDissolution: entry(branchDissolution, `${CC}, algorithm 1`, { least: 3, protect: 'units' }),
  jointEviction: entry(jointEviction, `${GOEL}, eq. 24`),
  diversity: entry(diversity, `${SCD}, algorithm 1`, { lambda: 0.5, signature: 'model', last: 0.5, decay: 1 }),
  topK: entry(topK, CORE),
  merge: entry(merge, KVPRESS, { threshold: 0 }),
  cam: entry(cam, ZHANG24M, { slots: 32, most: 512, seed: 0 }),
  rerotate: entry(rerotate, XIAO),
  view: around(
    'of',
    (terms, { budget, rows }) =>
      view(terms[0][1] as unknown as Piece<'start', 'kept'>, {
        budget: Number(budget ?? 1024),
        rows: String(rows ?? 'query') as 'query' | 'kv',
      }),
    CORE,
    { budget: 1024, rows: 'query' },
  ),
  cis: entry(cis, `${PRHS}, section IV-A`, {
    block: 8,
    threshold: 0.8,
    compare: 'queries',
    dilation: 1,
    sinks: 4,
    local: 32,
  }),
  sharedSets: entry(sharedSets, HSHARE, { query: 2, heads: 0.5, layers: 0.5, measure: 8, sinks: 8, local: 32 }),
  psaw: entry(psaw, `${PRHS}, eq. 15`, { sinks: 4, phi: 0.7, alpha: 1 }),
  etf: entry(etf, `${PRHS}, eq. 16`, { sinks: 4, psi: 0.5, gamma: 1 }),
};
