import { KvError, readTensorFile, tensorFile } from '@kv/core';

/** Weights of a learned detector for one model: f(h) = σ(W2 GELU(W1 h)) of a hidden state h. */
export interface DetectorWeights {
  /** Channels of a hidden state. */
  readonly width: number;
  /** W1, `[units, width]`. */
  readonly first: Float32Array;
  /** W2, `[units]`. */
  readonly second: Float32Array;
}

/** Name of the file next to the model. */
export const DETECTOR_FILE = 'learned-detector.safetensors';

/** Returns a detector as a safetensors file: `first` f32 `[units, width]` and `second` f32 `[units]`, with metadata. */
export const detectorFile = (
  { width, first, second }: DetectorWeights,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array =>
  tensorFile({
    metadata,
    tensors: {
      first: { shape: [second.length, width], data: first },
      second: { shape: [second.length], data: second },
    },
  });

/**
 * Reads a file that `detectorFile` writes, also in f16 and bf16.
 *
 * @throws KvError for any other bytes.
 */
export function readDetector(file: Uint8Array): DetectorWeights {
  const {
      tensors: { first, second },
    } = readTensorFile(DETECTOR_FILE, file, ['first', 'second']),
    [units = 0, width = 0] = first.shape;
  if (first.shape.length !== 2 || second.shape.length !== 1 || second.shape[0] !== units || units * width === 0)
    throw new KvError(
      DETECTOR_FILE,
      `expected 'first' [units, width] and 'second' [units], got [${first.shape.join(', ')}] and [${second.shape.join(', ')}]`,
    );
  return { width, first: first.data, second: second.data };
}

const gelu = (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/**
 * Returns f(h) = σ(W2 GELU(W1 h)) of rows `[m, width]`, in 0 .. 1: Transactional Attention, eq. 4, with the tanh form
 * of GELU. Sums in f64; O(m units width).
 */
export function confidence({ width, first, second }: DetectorWeights, rows: Float32Array): Float32Array {
  return Float32Array.from({ length: rows.length / width }, (_, i) => {
    let logit = 0;
    for (let u = 0; u < second.length; u++) {
      let sum = 0;
      for (let c = 0; c < width; c++) sum += first[u * width + c] * rows[i * width + c];
      logit += second[u] * gelu(sum);
    }
    return 1 / (1 + Math.exp(-logit));
  });
}
