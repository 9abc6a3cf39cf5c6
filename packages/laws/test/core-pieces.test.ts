import { describe, test } from 'vitest';
import * as core from '@kv/core';
import * as laws from '../src/index.ts';

/** The pieces that core itself brings keep the laws of their kind. */
describe.each([core.pool(), core.pool({ kernel: 3, kind: 'max', except: 2 }), core.normalize(), core.minMax(), core.zScore(), core.softmax(), core.log1p(), core.reduceHeads(), core.reduceHeads('sum'), core.perLayer(), core.mandatory({ sinks: 2, recent: 1 })])('$label', (piece) => laws.each(laws.transformLaws(piece), test));
describe('sum', () => laws.each(laws.sumLaws(core.sum as laws.Combination), test));
describe('max', () => laws.each(laws.maxLaws(core.max as laws.Combination), test));
describe('weighted', () => laws.each(laws.weightedLaws(core.weighted as laws.WeightedCombination), test));
describe('compose', () => laws.each(laws.composeLaws(core.compose as laws.Compose), test));
describe('mean-by-position', () => laws.each(laws.kernelLaws(core.meanByPosition), test));

const norm = core.scorer('norm', [core.keys], ({ ops, keys }) => ops.sub(0, ops.norm(keys)));
const window = core.weigher('window', [core.attentionWindow(2)], ({ attention }) => attention);
describe.each([norm, window, core.sum(norm, window), core.max(norm, window), core.weighted([2, norm], [-1, window]), core.sum()])('$label', (piece) => laws.each(laws.scorerLaws(piece), test));
