import { cadence, compose, count, mandatory, method, oneOf, perModel, weighted, withDefault } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { promptPart } from '@kv/allocators-prompt-part';
import { atLeast } from '@kv/allocators-threshold';
import { snapkv } from '@kv/scorers-attention';
import { leverage } from '@kv/scorers-compactor';
import { rarity } from '@kv/scorers-rarity';
import { branchDissolution } from '@kv/selectors-branch-dissolution';
import { topK } from '@kv/selectors-top-k';
import { wholeUnits } from '@kv/selectors-whole-units';
import { chunks, entropyGate } from '@kv/units-chunks';
import { spans } from '@kv/units-spans';
import {
  breath,
  centrality,
  clipToRange,
  crystallization,
  saliency,
  sentences,
  trunks,
  unitLogMinMax,
} from '@kv/units-trunks';
import { standardised } from './common.ts';

/** ChunkKV: keeps SnapKV's best chunks of positions whole, the same ones in every head of a layer. */
export const chunkkv = method(
  'chunkkv',
  {
    source: chunks,
    says: "SnapKV's best chunks, whole and alike in every head.",
    options: { size: chunks.options.size, ...snapkv.options },
  },
  ({ size, ...o }) => compose(snapkv(o), chunks({ size }), wholeUnits()),
);

/** ChunkKV gated by entropy, as kvpress' EntropyGatedChunkKVPress: spiky chunks are cut to their best slots. */
export const entropyChunkkv = method(
  'entropyChunkkv',
  {
    source: entropyGate,
    says: 'Coherent chunks whole, spiky ones cut to their best slots.',
    options: { ...entropyGate.options, ...snapkv.options },
  },
  ({ size, low, ...o }) => compose(snapkv(o), entropyGate({ size, low }), topK()),
);

/**
 * ShotKV: examples stay or go as wholes, chosen once after the prompt; what is generated is evicted within a budget of
 * its own.
 */
export const shotkv = method(
  'shotkv',
  {
    source: promptPart,
    says: 'Whole examples of the prompt, and a budget of its own for what is generated.',
    options: {
      window: withDefault(snapkv.options.window, 16),
      delimiter: withDefault(spans.options.delimiter, '\n\n'),
      score: withDefault(spans.options.score, 'sum'),
      share: promptPart.options.share,
      every: count(64, 'tokens', 'An event every N generated tokens.'),
    },
  },
  ({ window, delimiter, score, share, every }) =>
    compose(
      snapkv({ window, kernel: 1 }),
      spans({ delimiter, score }),
      promptPart({ share }),
      wholeUnits({ last: 'fill' }),
      cadence({ every }),
    ),
);

/**
 * Keeps whole sentences that the question attends to, each scored by its three best slots; the last one, which no
 * longer fits, fills the remaining budget with its best slots.
 *
 * @remarks Ours, from SnapKV's window and CrystalCache's sentences: a question attends to the beginning of a number;
 * the rest of the number is attended to only while it is being generated. Measured in studies/smollm2-needle.
 */
export const attendedSentences = method(
  'attendedSentences',
  {
    source: 'studies/smollm2-needle',
    says: 'Whole sentences that the question looks at.',
    options: {
      window: withDefault(snapkv.options.window, 8),
      maxSize: withDefault(sentences.options.maxSize, 32),
      sinks: mandatory.options.sinks,
    },
  },
  ({ window, maxSize, sinks }) =>
    compose(snapkv({ window, kernel: 1 }), mandatory({ sinks }), sentences({ maxSize }), wholeUnits({ last: 'fill' })),
);

/**
 * Keeps whole sentences whose keys are unlike those of the rest of the text, the same ones in every layer and head. A
 * token scores its mean leverage over all heads, in standard deviations of the head; a sentence scores the mean of its
 * tokens.
 *
 * @remarks Ours, for a question that comes after the eviction: it reads no attention. A fact that nothing else in the
 * text predicts has keys that no other keys account for. Leverage is Compactor's, arXiv:2507.08143, and sentences are
 * CrystalCache's. Measured in studies/hard-half. Runs once the whole prompt is read, and keeps no state for it.
 */
export const outstandingSentences = method(
  'outstandingSentences',
  {
    source: 'studies/hard-half',
    says: 'Whole sentences whose keys are unlike all others: the question may come later.',
    options: {
      maxSize: withDefault(sentences.options.maxSize, 20),
      sinks: mandatory.options.sinks,
      kind: withDefault(perModel.options.kind, 'mean'),
    },
  },
  ({ maxSize, sinks, kind }) =>
    compose(
      leverage(),
      standardised,
      perModel({ kind }),
      mandatory({ sinks }),
      sentences({ maxSize, top: 0 }),
      wholeUnits({ last: 'fill' }),
    ),
);

const crystal = {
  impact: oneOf(
    ['encoding', 'saliency', 'uniform'],
    'encoding',
    'What tokens weigh: saliency and rarity, or, as in the ablations of table 10, saliency alone or all the same.',
  ),
  alpha: crystallization.options.alpha,
  steepness: crystallization.options.steepness,
  maxSize: trunks.options.maxSize,
  edges: trunks.options.edges,
  chunk: trunks.options.chunk,
  sinks: mandatory.options.sinks,
  recent: withDefault(mandatory.options.recent, 128),
};

const score = oneOf(
  ['both', 'content', 'place'],
  'both',
  'What a trunk is kept for: the larger of its content M and its place D in the graph, or, as in the ablations, one of them.',
);

/** Encoding impact of tokens, clipped; forces sinks and recents, with budgets of at least their number (eq. 30). */
const weighing = ({ impact, chunk, sinks, recent }: ResolvedOptions<typeof crystal>) => {
  const weights =
    impact === 'uniform'
      ? weighted([0, rarity()])
      : impact === 'saliency'
        ? weighted([20, saliency({ chunk })])
        : weighted([10, saliency({ chunk })], [10, rarity()]);
  return compose(weights, clipToRange(), mandatory({ sinks, recent }), atLeast({ slots: sinks + recent }));
};

/**
 * CrystalCache: encoding impact of tokens, trunks of linked sentences, max(centrality, content), branch dissolution.
 *
 * @remarks CrystalCache, algorithm 2, prefill. A budget below sinks + recent, 132, is raised to it (eq. 30). Keeps up
 * to two slots fewer than the budget. Costs the first layer once more.
 */
export const crystalcache = method(
  'crystalcache',
  {
    source: 'CrystalCache, algorithm 2',
    says: 'Whole trunks of sentences by centrality or content; at least sinks + recent stay.',
    options: { ...crystal, score },
  },
  (o) => {
    const { alpha, steepness, maxSize, edges, chunk } = o,
      scored = {
        both: () => crystallization({ alpha, steepness, chunk }),
        content: () => unitLogMinMax(),
        place: () => centrality({ steepness, chunk }),
      }[o.score]();
    return compose(weighing(o), trunks({ maxSize, edges, chunk }), scored, branchDissolution());
  },
);

/**
 * CrystalCache with its breath cycle: every few generated tokens, trunks that matter now raise related ones, and the
 * cache is dissolved to its budget again, with nothing protected.
 *
 * @remarks CrystalCache, section 3.8, which its authors never ran; the budget is the prompt's.
 */
export const crystalcacheBreath = method(
  'crystalcacheBreath',
  {
    source: breath,
    says: 'CrystalCache that dissolves again while it generates.',
    options: { ...crystal, interval: breath.options.interval, pulses: breath.options.pulses },
  },
  (o) => {
    const { alpha, steepness, maxSize, edges, chunk, interval, pulses } = o;
    return compose(
      weighing(o),
      trunks({ maxSize, edges, chunk, run: interval }),
      breath({ interval, alpha, pulses, steepness, chunk }),
      branchDissolution(),
      cadence({ every: interval }),
    );
  },
);
