import { checkNumber, KvError } from '@kv/core';
import type { Signal, Tokens } from '@kv/core';
import type { Detector } from './detector.ts';
import { confidence, DETECTOR_FILE, readDetector } from './detector-file.ts';
import type { DetectorWeights } from './detector-file.ts';
import type { Ranker } from './learn-rank.ts';

export interface LearnedOptions {
  /** Anchors are tokens whose confidence lies above it. @defaultValue 0.5 */
  readonly above?: number;
  /** The file of a detector. @defaultValue `learned-detector.safetensors` beside the model */
  readonly weights?: Uint8Array;
}

const read = new WeakMap<Uint8Array, DetectorWeights>();
/** Files that were given, each with a number of its own: signals of one file are one. */
const given = new WeakMap<Uint8Array, number>();
let count = 0;
const numberOf = (file: Uint8Array): number => {
  const number = given.get(file) ?? ++count;
  given.set(file, number);
  return number;
};

/**
 * How surely each token is an anchor, f32 `[tokens]` by position. @throws KvError where no detector lies beside the
 * model, or it is of another width.
 */
function confidences(weights?: Uint8Array): Signal<'confidences', Float32Array> {
  const args = weights && { weights: numberOf(weights) };
  return {
    id: 'confidences',
    as: 'confidences',
    cost: 'artifact',
    hidden: true,
    ...(args && { args }),
    provide: async (engine) => {
      const file = weights ?? (await engine.artifact(DETECTOR_FILE));
      if (!file)
        throw new KvError(
          'learned',
          `expected ${DETECTOR_FILE} beside the model, got none: @kv/detector-smollm2 has that of SmolLM2-135M-Instruct, and 'node tools/detector.mjs MODEL' makes one`,
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
 * Tokens that an MLP takes for anchors by their hidden state behind the last layer, f(h) = σ(W2 GELU(W1 h)) > 0.5.
 *
 * @remarks Transactional Attention, section 5.1, eq. 4. Hidden states exist once the last layer is through: a policy
 * with it looks at the whole prompt and evicts once, after prefill, then whenever its cadence says. They are behind the
 * final norm, and those of
 * a token never change, whatever is evicted later. O(units width) a token, on the host.
 * @throws KvError if `above` is outside [0, 1]; in an event where the model has no detector, or one of another width.
 */
export function learned({ above = 0.5, weights }: LearnedOptions = {}): Detector<Float32Array> {
  checkNumber('learned', 'above', above, 'a number from 0 to 1', (x) => x >= 0 && x <= 1);
  const detect = (_: Tokens, f: Float32Array): readonly number[] => Array.from(f.keys()).filter((i) => f[i] > above);
  return Object.defineProperty(Object.assign(detect, { signal: confidences(weights) }), 'name', {
    value: weights === undefined && above === 0.5 ? 'learned' : 'own',
  });
}

/** The confidences that `learned` looks at, for `learnRank`. */
export function learnedRank({ weights }: Pick<LearnedOptions, 'weights'> = {}): Ranker<Float32Array> {
  const rank = (_: Tokens, f: Float32Array): ArrayLike<number> => f;
  return Object.defineProperty(Object.assign(rank, { signal: confidences(weights) }), 'name', {
    value: weights === undefined ? 'learned' : 'own',
  });
}
