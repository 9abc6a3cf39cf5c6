import { architectures } from '../config/architectures.ts';
import { concatArrays } from '../read/join-bytes.ts';
import { ffnOf, type ModelConfig } from '../config/config.ts';
import { deinterleave, separate, stack, type Matrix, type MatrixPart, type Reordering } from '../format/matrix.ts';
import { deltaChannels, type AttentionMixer, type GatedDelta, type ShortConvolution } from '../config/mixers.ts';
import { ggufNames, huggingFaceNames, type LayerNames } from '../config/names.ts';
import type { CheckpointTensors } from '../format/tensor-file.ts';
import { tensorReader, type LazyRead, type TensorReader } from '../format/tensor-reader.ts';

/** Weights before the attention of a layer that has it. */
export interface ProjectWeights {
  /** `[D]`; present if a norm comes before attention */
  readonly norm?: Float32Array;
  /**
   * q, k and v, `[(H + 2 G) * d, D]`, of which a layer lacks v whose values are of its keys, and k too if it reads another
   * layer's slots; where heads have an output gate, its H * d rows follow
   */
  readonly qkv: Matrix;
  /** As many numbers as `qkv` has rows */
  readonly bias?: Float32Array;
  /** `[d]` per head, or `[H * d]` over the projection */
  readonly qNorm?: Float32Array;
  /** `[d]` per head, or `[G * d]` over the projection */
  readonly kNorm?: Float32Array;
  /** `[d]` per head; ones for a norm without weights */
  readonly vNorm?: Float32Array;
  /** `[H]`: the learned sink of each query head */
  readonly sinks?: Float32Array;
}

/** Weights of a layer's short convolution, up to its output product. */
export interface ConvolutionWeights {
  /** `[D]` */
  readonly norm: Float32Array;
  /** B, C and u, in this order, `[3 * channels, D]` */
  readonly input: Matrix;
  /** `[3 * channels]` */
  readonly inputBias?: Float32Array;
  /** `[channels, L]`; the last number of a row multiplies the token itself */
  readonly kernel: Float32Array;
  /** `[channels]`, added to what the kernel gives */
  readonly kernelBias?: Float32Array;
}

/** Weights of a layer's gated delta rule, up to its output product. */
export interface DeltaWeights {
  /** `[D]` */
  readonly norm: Float32Array;
  /** q, k, v, z, b and a, in this order, `[2 keyHeads * keyDim + 2 valueHeads * valueDim + 2 valueHeads, D]` */
  readonly input: Matrix;
  /** `[channels, L]` over q, k and v; the last number of a row multiplies the token itself */
  readonly kernel: Float32Array;
  /** `[valueHeads]`, below 0: -exp(A_log) */
  readonly decay: Float32Array;
  /** `[valueHeads]`, added to a */
  readonly timeBias: Float32Array;
  /** `[valueDim]`, of the norm of each value head */
  readonly gain: Float32Array;
  /**
   * Key head that value head h reads: `grouped`, floor(h * keyHeads / valueHeads), as transformers orders value heads, or
   * `tiled`, h mod keyHeads, as llama.cpp's converter does. Columns of the output product have the same order.
   */
  readonly keyHeadOf: 'grouped' | 'tiled';
}

/** Weights after a layer's mixer. */
export interface FinishWeights {
  /** `[D, H * d]`; `[D, channels]` after a short convolution, `[D, valueHeads * valueDim]` after a gated delta rule */
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
  /** What joins a token's own input of this layer with the residual stream, where the model has such inputs. */
  readonly perLayer?: LayerInputWeights;
  /** `[1]`: multiplies the layer's result */
  readonly scale?: Float32Array;
}

/** Weights that join a layer's own input of a token with the residual stream. */
export interface LayerInputWeights {
  /** `[P, D]` */
  readonly gate: Matrix;
  /** `[D, P]` */
  readonly output: Matrix;
  /** `[D]`, applied before it joins the residual stream */
  readonly norm: Float32Array;
}

/** Weights of the inputs that each layer takes of a token in addition to the residual stream. */
export interface PerLayerWeights {
  /** `[layers * P, D]`, of a token's embedding */
  readonly input: Matrix;
  /** `[P]`, of each layer's part of that product */
  readonly norm: Float32Array;
  /**
   * Returns tokens' rows `[m, layers * P]` of a table that is not held in memory but read from the file, which must still
   * be open.
   */
  rows(ids: ArrayLike<number>): Promise<Float32Array>;
}

/** A decoder's weights, read on demand and not cached. */
export interface Weights {
  /** `[vocab, D]` */
  embed(): Promise<Matrix>;
  /** Reads the weights before the attention of a layer; called only for layers that have attention. */
  project(layer: number): Promise<ProjectWeights>;
  /** Reads the weights of a layer's short convolution; absent if no layer has one, called only for layers that do. */
  readonly convolution?: (layer: number) => Promise<ConvolutionWeights>;
  /** Reads the weights of a layer's gated delta rule; absent if no layer has one, called only for layers that do. */
  readonly delta?: (layer: number) => Promise<DeltaWeights>;
  /** Reads the weights after a layer's mixer. */
  finish(layer: number): Promise<FinishWeights>;
  /** Reads the weights of layers' own inputs; absent if the model has none. */
  readonly perLayer?: () => Promise<PerLayerWeights>;
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
      kernel: (_, channels, length) => async () => new Float32Array(channels * length),
      rows: (_, __, inputs) => async (ids) => new Float32Array(ids.length * inputs),
      has: () => config.architecture === 'gemma4_text', // a factor of each layer's result
      checkNames() {},
    },
    config,
    'hugging-face',
  );

function readWeights(
  { matrix, vector, kernel, rows, has, checkNames }: TensorReader,
  config: ModelConfig,
  format: CheckpointFormat,
): Weights {
  const { hidden: D, vocab, queryHeads: H, perLayer: P, biases, layers: count, mixers, tied } = config;
  const { fused, qkNorm, valueNorm, norms, gainsFromOne, interleavedInGguf } = architectures[config.architecture];
  const before = norms !== 'after',
    after = norms !== 'before';
  const gguf = format === 'gguf',
    names = (gguf ? ggufNames : huggingFaceNames)(config.architecture, has);
  const gain = (name: string, width: number): LazyRead<Float32Array> => {
    const load = vector(`${name}.weight`, width);
    return gainsFromOne && !gguf ? then(load, (gains) => gains.map((w) => 1 + w)) : load;
  };
  const gated = config.attention.outputGate === true;
  /** Products of one input. */
  type Parts = readonly (readonly [name: string, outputs: number, order?: Reordering | undefined])[];
  const product = (parts: Parts, inputs: number): LazyRead<Matrix> =>
    stacked(parts.map(([name, outputs, order]) => matrix(`${name}.weight`, outputs, inputs, order)));
  const bias = (biased: boolean, parts: Parts): LazyRead<Float32Array> | undefined =>
    biased ? inOne(parts.map(([name, outputs, order]) => vector(`${name}.bias`, outputs, order))) : undefined;

  /** What a layer's mixer adds to the reads of a layer. */
  interface MixerReads {
    readonly project?: LazyRead<ProjectWeights>;
    readonly convolution?: LazyRead<ConvolutionWeights>;
    readonly delta?: LazyRead<DeltaWeights>;
    /** The product of what it gives: name, inputs, and whether it adds a bias. */
    readonly output: readonly [name: string, inputs: number, bias: boolean];
  }
  const attention = (at: LayerNames, { kvHeads: G, headDim: d, slotsOf, valuesOfKeys }: AttentionMixer): MixerReads => {
    const own = slotsOf === undefined,
      swap = gguf && interleavedInGguf ? deinterleave(d) : undefined;
    const qkv: Parts = fused
      ? [[at.qkv, (H + 2 * G) * d]]
      : [
          gated ? [at.q, 2 * H * d, separate(d)] : [at.q, H * d, swap],
          ...(own ? [[at.k, G * d, swap] as const] : []),
          ...(own && !valuesOfKeys ? [[at.v, G * d] as const] : []),
        ];
    return {
      project: take<ProjectWeights>({
        norm: before ? gain(at.mixerNorm, D) : undefined,
        qkv: then(product(qkv, D), (all) => (gated ? gatesLast(all) : all)),
        bias: then(bias(biases.qkv, qkv), (all) => (gated ? gateBiasesLast(all, H * d) : all)),
        qNorm: qkNorm === 'none' ? undefined : gain(at.qNorm, qkNorm === 'head' ? d : H * d),
        kNorm: qkNorm === 'none' || !own ? undefined : gain(at.kNorm, qkNorm === 'head' ? d : G * d),
        vNorm: valueNorm && own ? async () => new Float32Array(d).fill(1) : undefined,
        sinks: config.attention.learnedSinks ? vector(at.sinks, H) : undefined,
      }),
      output: [at.output, H * d, biases.output],
    };
  };
  const convolution = (at: LayerNames, { channels, kernel: length, bias: biased }: ShortConvolution): MixerReads => {
    const { input, kernel: filter, output } = at.convolution,
      thirds: Parts = [[input, 3 * channels]];
    return {
      convolution: take<ConvolutionWeights>({
        norm: gain(at.mixerNorm, D),
        input: product(thirds, D),
        inputBias: bias(biased, thirds),
        kernel: kernel(`${filter}.weight`, channels, length),
        kernelBias: bias(biased, [[filter, channels]]),
      }),
      output: [output, channels, biased],
    };
  };

  const delta = (at: LayerNames, mixer: GatedDelta): MixerReads => {
    const { keyHeads, valueHeads, valueDim, kernel: length } = mixer,
      channels = deltaChannels(mixer),
      values = valueHeads * valueDim,
      { qkv, z, b, a, kernel: filter, decay, timeBias, gain: ownGain, output } = at.delta,
      logs = vector(decay, valueHeads);
    return {
      delta: take<DeltaWeights>({
        norm: gain(at.mixerNorm, D),
        input: product(
          [
            [qkv, channels],
            [z, values],
            [b, valueHeads],
            [a, valueHeads],
          ],
          D,
        ),
        kernel: kernel(`${filter}.weight`, channels, length),
        decay: gguf ? logs : then(logs, (all) => all.map((log) => -Math.exp(log))),
        timeBias: vector(timeBias, valueHeads),
        gain: vector(`${ownGain}.weight`, valueDim),
        keyHeadOf: async () => (gguf && keyHeads < valueHeads ? 'tiled' : 'grouped'),
      }),
      output: [output, values, false],
    };
  };

  const layers = Array.from({ length: count }, (_, index) => {
    const at = names.layer(index),
      mixer = mixers[index];
    const {
      output: [name, inputs, biased],
      ...reads
    } =
      mixer.kind === 'attention'
        ? attention(at, mixer)
        : mixer.kind === 'gatedDelta'
          ? delta(at, mixer)
          : convolution(at, mixer);
    const ffn = ffnOf(config, index),
      output: Parts = [[name, D]];
    const gateUp: Parts = fused
      ? [[at.gateUp, 2 * ffn]]
      : [
          [at.gate, ffn],
          [at.up, ffn],
        ];
    const down: Parts = [[at.down, D]];
    return {
      ...reads,
      finish: take<FinishWeights>({
        output: product(output, inputs),
        outputBias: bias(biased, output),
        postAttentionNorm: after ? gain(at.postAttentionNorm, D) : undefined,
        norm: before ? gain(at.ffnNorm, D) : undefined,
        gateUp: product(gateUp, D),
        gateUpBias: bias(biases.ffn, gateUp),
        down: product(down, ffn),
        downBias: bias(biases.ffn, down),
        postFfnNorm: after ? gain(at.postFfnNorm, D) : undefined,
        perLayer:
          P === undefined
            ? undefined
            : take<LayerInputWeights>({
                gate: matrix(`${at.inputGate}.weight`, P, D),
                output: matrix(`${at.inputOutput}.weight`, D, P),
                norm: gain(at.inputNorm, D),
              }),
        scale: has(at.scale) ? vector(at.scale, 1) : undefined,
      }),
    };
  });
  const embed = matrix(`${names.embed}.weight`, vocab, D),
    norm = gain(names.norm, D);
  const perLayer =
    P === undefined
      ? undefined
      : take<PerLayerWeights>({
          input: matrix(`${names.perLayer.input}.weight`, count * P, D),
          norm: gain(names.perLayer.norm, P),
          rows: (
            (read) => async () =>
              read
          )(rows(`${names.perLayer.table}.weight`, vocab, count * P)),
        });
  const head = tied ? embed : matrix(`${names.head}.weight`, vocab, D);
  checkNames(names.harmless, `the tensors of a ${config.architecture} model with ${count} layers`);
  return {
    embed,
    // layers whose mixers have such weights
    project: (layer) => layers[layer].project!(),
    convolution: (layer) => layers[layer].convolution!(),
    delta: (layer) => layers[layer].delta!(),
    finish: (layer) => layers[layer].finish(),
    ...(perLayer && { perLayer }),
    norm,
    head,
  };
}

/** Moves the second half of the first rows, which are the queries' and the gates', to the end; nothing is copied. */
function gatesLast({ parts: [queries, ...others], ...shape }: Matrix): Matrix {
  if (queries === undefined) return { ...shape, parts: [] };
  const { type, rows, bytes } = queries,
    half = (from: number): MatrixPart => ({
      type,
      rows: rows / 2,
      bytes: bytes.subarray(from, from + bytes.length / 2),
    });
  return { ...shape, parts: [half(0), ...others, half(bytes.length / 2)] };
}

const gateBiasesLast = (biases: Float32Array, queries: number): Float32Array =>
  concatArrays([biases.subarray(0, queries), biases.subarray(2 * queries), biases.subarray(queries, 2 * queries)]);

/** Applies a function to what is read, if anything is. */
function then<T>(load: LazyRead<T>, change: (value: T) => T): LazyRead<T>;
function then<T>(load: LazyRead<T> | undefined, change: (value: T) => T): LazyRead<T> | undefined;
function then<T>(load: LazyRead<T> | undefined, change: (value: T) => T): LazyRead<T> | undefined {
  return load && (async () => change(await load()));
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
