import { log1p, mandatory, max, minMax, normalize, perLayer, pool, reduceHeads, softmax, sum, weighted, zScore } from '@kv/core';
import type { Piece, Scored } from '@kv/core';
import { protectedPartition } from '@kv/allocators-protected-partition';
import { pyramidal, pyramidkv } from '@kv/allocators-pyramidal';
import { uniform } from '@kv/allocators-uniform';
import { h2o, observed, snapkv, streaming, tova } from '@kv/scorers-attention';
import { caote, fastCaote } from '@kv/scorers-caote';
import { knorm } from '@kv/scorers-knorm';
import { random } from '@kv/scorers-random';
import { frequency, rarity } from '@kv/scorers-rarity';
import { recency, sponsorship, structure } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { CAI, CC, DEVOTO, GOEL, KVPRESS, LI, OREN, TA, XIAO, ZHANG } from './sources.ts';

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
  /** It stands around other scorers: any number, any number with weights, or the one under the name `by`. */
  readonly around?: 'scorers' | 'weighted' | 'by';
}

const entry = <O>(make: (options?: O) => Piece, source: string, options: OptionValues = {}): PieceEntry => ({ make: (given) => make(given as O | undefined), source, options });
const around = (kind: 'scorers' | 'weighted' | 'by', make: (terms: readonly Term[], options: OptionValues) => Piece, source: string, options: OptionValues = {}): PieceEntry =>
  ({ make: (given = {}, terms = []) => make(terms, given), source, options, around: kind });
const scorers = (terms: readonly Term[]): readonly AnyScorer[] => terms.map(([, scorer]) => scorer);
const CORE = '@kv/core';

/** The pieces that this package composes from and core's own, under the names that labels use. */
export const pieces: Readonly<Record<string, PieceEntry>> = {
  streaming: entry(streaming, XIAO, { sinks: 4 }),
  snapkv: entry(snapkv, LI, { window: 64, kernel: 5, pooling: 'mean' }),
  h2o: entry(h2o, ZHANG, { recent: 0.5, over: 'accumulated' }),
  tova: entry(tova, OREN, { forceLast: true }),
  observed: entry(observed, KVPRESS),
  knorm: entry(knorm, DEVOTO),
  random: entry(random, 'the floor for comparison', { seed: 0 }),
  rarity: entry(rarity, `${CC}, eq. 21`),
  frequency: entry(frequency, `${TA}, eq. 1`),
  recency: entry(recency, `${TA}, eq. 1`),
  structure: entry(structure, `${TA}, eq. 1`),
  sponsorship: entry(sponsorship, `${TA}, eq. 2`, { reach: 6, strength: 15, decay: 0.9 }),
  sum: around('scorers', (terms) => sum(...scorers(terms)), CORE),
  max: around('scorers', (terms) => max(...scorers(terms)), CORE),
  weighted: around('weighted', (terms) => weighted(...terms), CORE),
  caote: entry(caote, `${GOEL}, eq. 6`, { square: false }),
  fastCaote: entry(fastCaote, `${GOEL}, eq. 8`),
  pool: entry(pool, CORE, { kernel: 5, kind: 'mean', except: 0 }),
  normalize: entry(normalize, CORE),
  minMax: entry(minMax, CORE),
  zScore: entry(zScore, CORE),
  softmax: entry(softmax, CORE),
  log1p: entry(log1p, CORE),
  perLayer: entry(perLayer, CORE),
  reduceHeads: entry((o?: { kind?: 'mean' | 'max' | 'sum' }) => reduceHeads(o?.kind), CORE, { kind: 'mean' }),
  mandatory: entry(mandatory, CORE, { sinks: 4, recent: 0 }),
  uniform: entry(uniform, 'what an engine starts from'),
  pyramidal: entry(pyramidal, CAI, { beta: 20 }),
  pyramidkv: entry(pyramidkv, `${CAI}, ${KVPRESS}'s rule`, { window: 64, beta: 20 }),
  protectedPartition: around('by', (terms, options) => protectedPartition(scorers(terms)[0]!, options), `${TA}, section 3.3`, { slots: 4 }),
  topK: entry(topK, CORE),
};
