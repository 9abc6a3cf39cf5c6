import { architectures } from '../config/architectures.ts';
import { concatArrays } from '../read/join-bytes.ts';
import type { ModelConfig } from '../config/config.ts';
import { deinterleave, separate, type Matrix, type MatrixPart, type Reordering } from '../format/matrix.ts';
import { deltaChannels, type GatedDelta, type ShortConvolution } from '../config/mixers.ts';
import { ggufNames, huggingFaceNames, type LayerNames } from '../config/names.ts';
import type { CheckpointTensors } from '../format/tensor-file.ts';
import { tensorReader, type LazyRead, type TensorReader } from '../format/tensor-reader.ts';
import { expertReads, type ExpertWeights } from './expert-weights.ts';
import { convert, inOne, stacked, take } from './lazy.ts';

/** Weights before the attention of a layer that has it. */
export interface ProjectWeights {
  /** `[D]`; present if a norm comes before attention */
  readonly norm?: Float32Array;
  /** q, k and v, `[(H + 2 G) * d, D]`; where heads have an output gate, its H * d rows follow */
  readonly qkv: Matrix;
  /** As many numbers as `qkv` has rows */
  readonly bias?: Float32Array;
  /** `[d]` per head, or `[H * d]` over the projection */
  readonly qNorm?: Float32Array;
  /** `[d]` per head, or `[G * d]` over the projection */
  readonly kNorm?: Float32Array;
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
  /** gate and up, `[2 * ffn, D]`, of the feed-forward layer or of the expert that all tokens share; absent where there is neither */
  readonly gateUp?: Matrix;
  /** `[2 * ffn]` */
  readonly gateUpBias?: Float32Array;
  /** `[D, ffn]`, as `gateUp` */
  readonly down?: Matrix;
  /** `[D]` */
  readonly downBias?: Float32Array;
  /** Present in layers with routed experts */
  readonly experts?: ExpertWeights;
  /** `[D]` */
  readonly postFfnNorm?: Float32Array;
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
      experts:
        (_, [experts, outputs, inputs]) =>
        async () => ({ outputs: experts * outputs, inputs, parts: [] }),
      has: () => false,
      checkNames() {},
    },
    config,
    'hugging-face',
  );

function readWeights(reader: TensorReader, config: ModelConfig, format: CheckpointFormat): Weights {
  const { matrix, vector, kernel, has, checkNames } = reader;
  const { hidden: D, ffn, vocab, headDim: d, queryHeads: H, kvHeads: G, biases, layers: count, mixers, tied } = config;
  const { fused, qkNorm, norms, gainsFromOne, interleavedInGguf } = architectures[config.architecture];
  const before = norms !== 'after',
    after = norms !== 'before';
  const gguf = format === 'gguf',
    names = (gguf ? ggufNames : huggingFaceNames)(config.architecture, has);
  const gain = (name: string, width: number): LazyRead<Float32Array> => {
    const load = vector(`${name}.weight`, width);
    return gainsFromOne && !gguf ? convert(load, (gains) => gains.map((w) => 1 + w)) : load;
  };
  const gated = config.attention.outputGate === true;
  const swap = gguf && interleavedInGguf ? deinterleave(d) : undefined;
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
  const attention = (at: LayerNames): MixerReads => {
    const qkv: Parts = fused
      ? [[at.qkv, (H + 2 * G) * d]]
      : [gated ? [at.q, 2 * H * d, separate(d)] : [at.q, H * d, swap], [at.k, G * d, swap], [at.v, G * d]];
    return {
      project: take<ProjectWeights>({
        norm: before ? gain(at.mixerNorm, D) : undefined,
        qkv: convert(product(qkv, D), (all) => (gated ? gatesLast(all) : all)),
        bias: convert(bias(biases.qkv, qkv), (all) => (gated ? gateBiasesLast(all, H * d) : all)),
        qNorm: qkNorm === 'none' ? undefined : gain(at.qNorm, qkNorm === 'head' ? d : H * d),
        kNorm: qkNorm === 'none' ? undefined : gain(at.kNorm, qkNorm === 'head' ? d : G * d),
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
        decay: gguf ? logs : convert(logs, (all) => all.map((log) => -Math.exp(log))),
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
        ? attention(at)
        : mixer.kind === 'gatedDelta'
          ? delta(at, mixer)
          : convolution(at, mixer);
    const output: Parts = [[name, D]];
    const { experts } = config,
      routed = experts?.layers[index] === true,
      dense = routed ? at.experts.shared : at,
      width = routed ? (experts.shared?.width ?? 0) : ffn;
    const gateUp: Parts = fused
      ? [[at.gateUp, 2 * width]]
      : [
          [dense.gate, width],
          [dense.up, width],
        ];
    const down: Parts = [[dense.down, D]];
    return {
      ...reads,
      finish: take<FinishWeights>({
        output: product(output, inputs),
        outputBias: bias(biased, output),
        postAttentionNorm: after ? gain(at.postAttentionNorm, D) : undefined,
        norm: before ? gain(at.ffnNorm, D) : undefined,
        ...(width > 0
          ? {
              gateUp: product(gateUp, D),
              gateUpBias: bias(biases.ffn, gateUp),
              down: product(down, width),
              downBias: bias(biases.ffn, down),
            }
          : { gateUp: undefined, gateUpBias: undefined, down: undefined, downBias: undefined }),
        experts: routed
          ? take<ExpertWeights>(expertReads(reader, at.experts, experts, { hidden: D, gguf }))
          : undefined,
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
    // layers whose mixers have such weights
    project: (layer) => layers[layer].project!(),
    convolution: (layer) => layers[layer].convolution!(),
    delta: (layer) => layers[layer].delta!(),
    finish: (layer) => layers[layer].finish(),
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
