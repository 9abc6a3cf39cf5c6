import { architectures } from '../config/architectures.ts';
import { concatArrays } from '../read/join-bytes.ts';
import type { ModelConfig } from '../config/config.ts';
import { stack, type Matrix } from '../format/matrix.ts';
import { ggufNames, huggingFaceNames } from '../config/names.ts';
import type { CheckpointTensors } from '../format/tensor-file.ts';
import { tensorReader, type LazyRead, type TensorReader } from '../format/tensor-reader.ts';

/** Weights before a layer's attention. */
export interface ProjectWeights {
  /** `[D]`; present if a norm comes before attention */
  readonly norm?: Float32Array;
  /** q, k and v, `[(H + 2 G) * d, D]` */
  readonly qkv: Matrix;
  /** `[(H + 2 G) * d]` */
  readonly bias?: Float32Array;
  /** `[d]` per head, or `[H * d]` over the projection */
  readonly qNorm?: Float32Array;
  /** `[d]` per head, or `[G * d]` over the projection */
  readonly kNorm?: Float32Array;
}

/** Weights after a layer's attention. */
export interface FinishWeights {
  /** `[D, H * d]` */
  readonly output: Matrix;
  /** `[D]` */
  readonly outputBias?: Float32Array;
  /** `[D]`, applied to the output before it joins the residual stream */
  readonly postAttentionNorm?: Float32Array;
  /** `[D]`; present if a norm comes before the feed-forward layer */
  readonly norm?: Float32Array;
  /** gate and up, `[2 * ffn, D]` */
  readonly gateUp: Matrix;
  /** `[2 * ffn]` */
  readonly gateUpBias?: Float32Array;
  /** `[D, ffn]` */
  readonly down: Matrix;
  /** `[D]` */
  readonly downBias?: Float32Array;
  /** `[D]` */
  readonly postFfnNorm?: Float32Array;
}

/** A decoder's weights, read on demand and not cached. */
export interface Weights {
  /** `[vocab, D]` */
  embed(): Promise<Matrix>;
  /** Reads the weights before a layer's attention. */
  project(layer: number): Promise<ProjectWeights>;
  /** Reads the weights after a layer's attention. */
  finish(layer: number): Promise<FinishWeights>;
  /** Final norm, `[D]`. */
  norm(): Promise<Float32Array>;
  /** `[vocab, D]`; not called if the embedding is also the head. */
  head(): Promise<Matrix>;
}

/** The naming and layout conventions of a checkpoint. */
export type CheckpointFormat = 'hugging-face' | 'gguf';

/**
 * Returns the weights of a decoder in a checkpoint; those of one call are read together.
 * @throws KvError, before anything is read, naming the tensor that is missing, has another shape or type, or would be
 * ignored by this decoder; on reading, for a number that is not finite
 */
export const checkpointWeights = (
  file: CheckpointTensors,
  config: ModelConfig,
  format: CheckpointFormat = 'hugging-face',
): Weights => readWeights(tensorReader(file), config, format);

/**
 * Returns weights without data (zero vectors, matrices without parts), for counting the work of a model of this shape.
 */
export const shapeWeights = (config: ModelConfig): Weights =>
  readWeights(
    {
      matrix: (_, outputs, inputs) => async () => ({ outputs, inputs, parts: [] }),
      vector: (_, width) => async () => new Float32Array(width),
      checkNames() {},
    },
    config,
    'hugging-face',
  );

function readWeights(
  { matrix, vector, checkNames }: TensorReader,
  config: ModelConfig,
  format: CheckpointFormat,
): Weights {
  const { hidden: D, ffn, vocab, headDim: d, queryHeads: H, kvHeads: G, biases, layers: count, tied } = config;
  const { fused, qkNorm, norms, gainsFromOne, interleavedInGguf } = architectures[config.architecture];
  const before = norms !== 'after',
    after = norms !== 'before';
  const gguf = format === 'gguf',
    names = gguf ? ggufNames : huggingFaceNames(config.architecture);
  const gain = (name: string, width: number): LazyRead<Float32Array> => {
    const load = vector(`${name}.weight`, width);
    return gainsFromOne && !gguf ? async () => (await load()).map((w) => 1 + w) : load;
  };
  const swap = gguf && interleavedInGguf ? d : undefined;
  /** Products of one input: [name, outputs, rows of a head in GGUF's interleaved order]. */
  type Parts = readonly (readonly [name: string, outputs: number, interleaved?: number | undefined])[];
  const product = (parts: Parts, inputs: number): LazyRead<Matrix> =>
    stacked(parts.map(([name, outputs, heads]) => matrix(`${name}.weight`, outputs, inputs, heads)));
  const bias = (has: boolean, parts: Parts): LazyRead<Float32Array> | undefined =>
    has ? inOne(parts.map(([name, outputs, heads]) => vector(`${name}.bias`, outputs, heads))) : undefined;

  const layers = Array.from({ length: count }, (_, index) => {
    const at = names.layer(index);
    const qkv: Parts = fused
      ? [[at.qkv, (H + 2 * G) * d]]
      : [
          [at.q, H * d, swap],
          [at.k, G * d, swap],
          [at.v, G * d],
        ];
    const output: Parts = [[at.output, D]];
    const gateUp: Parts = fused
      ? [[at.gateUp, 2 * ffn]]
      : [
          [at.gate, ffn],
          [at.up, ffn],
        ];
    const down: Parts = [[at.down, D]];
    return {
      project: take<ProjectWeights>({
        norm: before ? gain(at.attentionNorm, D) : undefined,
        qkv: product(qkv, D),
        bias: bias(biases.qkv, qkv),
        qNorm: qkNorm === 'none' ? undefined : gain(at.qNorm, qkNorm === 'head' ? d : H * d),
        kNorm: qkNorm === 'none' ? undefined : gain(at.kNorm, qkNorm === 'head' ? d : G * d),
      }),
      finish: take<FinishWeights>({
        output: product(output, H * d),
        outputBias: bias(biases.output, output),
        postAttentionNorm: after ? gain(at.postAttentionNorm, D) : undefined,
        norm: before ? gain(at.ffnNorm, D) : undefined,
        gateUp: product(gateUp, D),
        gateUpBias: bias(biases.ffn, gateUp),
        down: product(down, ffn),
        downBias: bias(biases.ffn, down),
        postFfnNorm: after ? gain(at.postFfnNorm, D) : undefined,
      }),
    };
  });
  const embed = matrix(`${names.embed}.weight`, vocab, D),
    norm = gain(names.norm, D);
  const head = tied ? embed : matrix(`${names.head}.weight`, vocab, D);
  checkNames(names.harmless, `the tensors of a ${config.architecture} model with ${count} layers`);
  return {
    embed,
    project: (layer) => layers[layer].project(),
    finish: (layer) => layers[layer].finish(),
    norm,
    head,
  };
}

const stacked =
  (loads: readonly LazyRead<Matrix>[]): LazyRead<Matrix> =>
  async () =>
    stack(await Promise.all(loads.map((load) => load())));

const inOne =
  (loads: readonly LazyRead<Float32Array>[]): LazyRead<Float32Array> =>
  async () =>
    concatArrays(await Promise.all(loads.map((load) => load())));

/** Awaits all properties of an object at once; properties that are undefined are left out. */
function take<W extends object>(
  loads: { readonly [K in keyof W]-?: LazyRead<NonNullable<W[K]>> | (undefined extends W[K] ? undefined : never) },
): LazyRead<W> {
  return async () =>
    Object.fromEntries(
      await Promise.all(
        Object.entries<LazyRead<unknown> | undefined>(loads).flatMap(([name, load]) =>
          load ? [load().then((value) => [name, value])] : [],
        ),
      ),
    ) as W;
}
