import { KvError, number, partOf, value } from '@kv/core';
import type { OptionPart, Signal, Tokens } from '@kv/core';
import { detector } from './detector.ts';
import { confidence, DETECTOR_FILE, readDetector } from './detector-file.ts';
import type { DetectorWeights } from './detector-file.ts';

/**
 * Returns the confidence that each token is an anchor, 0 .. 1 by position, from the text and the value of the signal
 * that the ranker declares.
 */
export type AnchorRank = (tokens: Tokens, beside?: unknown) => ArrayLike<number>;
/** A ranker of anchors, as an option of pieces. */
export type Ranker = OptionPart<'ranker', AnchorRank>;
/** Defines a ranker: an option part that rates each token's confidence of being an anchor. */
export const ranker = partOf<'ranker', AnchorRank>('ranker');

const weights = value(
  'the bytes of a detector',
  'The file of a detector; else learned-detector.safetensors next to the model.',
  (x): x is Uint8Array => x instanceof Uint8Array,
);
const read = new WeakMap<Uint8Array, DetectorWeights>();
/** Numbers of the files passed as options: the same bytes object gives the same signal. */
const given = new WeakMap<Uint8Array, number>();
let count = 0;
const numberOf = (file: Uint8Array): number => {
  const number = given.get(file) ?? ++count;
  given.set(file, number);
  return number;
};

/**
 * Signal: the confidence that each token is an anchor, f32 `[tokens]` by position.
 *
 * @throws KvError where no detector lies next to the model, or its width is not the model's.
 */
function confidences(bytes?: Uint8Array): Signal<'confidences', Float32Array> {
  const args = bytes && { weights: numberOf(bytes) };
  return {
    id: 'confidences',
    as: 'confidences',
    cost: 'artifact',
    hidden: true,
    ...(args && { args }),
    provide: async (engine) => {
      const file = bytes ?? (await engine.artifact(DETECTOR_FILE));
      if (!file)
        throw new KvError(
          'learned',
          `expected ${DETECTOR_FILE} next to the model, got none: @kv/detector-smollm2 has that of SmolLM2-135M-Instruct, and 'node tools/detector.mjs MODEL' makes one`,
        );
      const detector = read.get(file) ?? readDetector(file);
      read.set(file, detector);
      return engine.hiddenNumbers(`confidences ${numberOf(file)}`, (rows, width) => {
        if (width !== detector.width)
          throw new KvError(
            'learned',
            `expected a detector of hidden states of ${width} channels, got one of ${detector.width}: it is of another model`,
          );
        return confidence(detector, rows);
      });
    },
  };
}

/**
 * Detector: tokens that an MLP classifies as anchors by their hidden state after the last layer, f(h) = σ(W2 GELU(W1
 * h)) > 0.5.
 *
 * @remarks Transactional Attention, section 5.1, eq. 4. Hidden states exist once the last layer has run: a policy with
 * this detector reads the whole prompt and evicts once, after prefill, then whenever its cadence says. Hidden states
 * are taken after the final norm, and those of a token never change, whatever is evicted later. O(units width) a token,
 * on the host.
 * @throws KvError in an event where the model has no detector, or one of another width.
 */
export const learned = detector(
  'learned',
  {
    source: 'Basu 2026, arXiv:2604.11288, section 5.1, eq. 4',
    says: 'Tokens whose hidden state a trained detector takes for an anchor.',
    options: {
      above: number(0.5, 'Anchors are tokens whose confidence lies above it.', { least: 0, most: 1 }),
      weights,
    },
    needs: (o) => confidences(o.weights),
  },
  ({ above }) =>
    (_, beside) => {
      const f = beside as Float32Array; // its declared signal
      return Array.from(f.keys()).filter((i) => f[i] > above);
    },
);

/** Ranker with the confidences of `learned`, for `learnRank`. */
export const learnedRank = ranker(
  'learnedRank',
  {
    source: 'Basu 2026, arXiv:2604.11288, section 5.1, eq. 4',
    says: "A trained detector's confidence in each token.",
    options: { weights },
    needs: (o) => confidences(o.weights),
  },
  () => (_, beside) => beside as Float32Array, // its declared signal
);
