import { architectures } from '../config/architectures.ts';
import { concatArrays } from '../read/join-bytes.ts';
import { ffnOf, type ModelConfig } from '../config/config.ts';
import { deinterleave, separate, type Matrix, type MatrixPart, type Reordering } from '../format/matrix.ts';
import {
  deltaChannels,
  spaceChannels,
  type AttentionMixer,
  type GatedDelta,
  type ShortConvolution,
  type StateSpace,
} from '../config/mixers.ts';
import { ggufNames, huggingFaceNames, type LayerNames } from '../config/names.ts';
import { storedOf, type CheckpointTensors } from '../format/tensor-file.ts';
import { tensorReader, type LazyRead, type TensorReader } from '../format/tensor-reader.ts';
import { expertReads, type ExpertWeights } from './expert-weights.ts';
import { convert, inOne, stacked, take } from './lazy.ts';

/** Weights before the attention of a layer that has it. */
export interface ProjectWeights {
  /** `[D]`; present if a norm comes before attention */
  readonly norm?: Float32Array;
  /**
   * q, k and v, `[(H + 2 G) * d, D]`, of which a layer lacks v whose values are of its keys, and k too if it reads another
   * layer's slots; the rows of output gates follow: H * d where each channel has one, H where each head has
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

/** Weights of a layer's state space, up to its output product and the norm before that. */
export interface SpaceWeights {
  /** `[D]` */
  readonly norm: Float32Array;
  /** z, x, B, C and dt, in this order, `[2 heads * headDim + 2 groups * stateDim + heads, D]` */
  readonly input: Matrix;
  /** As many numbers as `input` has rows */
  readonly inputBias?: Float32Array;
  /** `[channels, L]` over x, B and C; the last number of a row multiplies the token itself */
  readonly kernel: Float32Array;
  /** `[channels]`, added to what the kernel gives */
  readonly kernelBias?: Float32Array;
  /** `[heads]`, below 0: -exp(A_log) */
  readonly decay: Float32Array;
  /** `[heads]`, added to dt */
  readonly timeBias: Float32Array;
  /** `[heads]`, D: what of x a head gives besides its memory */
  readonly skip: Float32Array;
}

/** Weights after a layer's mixer. */
export interface FinishWeights {
  /** `[heads * headDim]` after a state space, whose groups are normed before the output product */
  readonly mixerGain?: Float32Array;
  /**
   * `[D, H * d]`; `[D, channels]` after a short convolution, `[D, valueHeads * valueDim]` after a gated delta rule, `[D,
   * heads * headDim]` after a state space
   */
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
  /** Reads the weights of a layer's state space; absent if no layer has one, called only for layers that do. */
  readonly space?: (layer: number) => Promise<SpaceWeights>;
  /** Reads the weights after a layer's mixer. */
  finish(layer: number): Promise<FinishWeights>;
  /** Reads the weights of layers' own inputs; absent if the model has none. */
  readonly perLayer?: () => Promise<PerLayerWeights>;
  /** Final norm, `[D]`. */
  norm(): Promise<Float32Array>;
  /** `[vocab, D]`; not called if the embedding is also the head. */
  head(): Promise<Matrix>;
  /**
   * The same weights, but most matrices stay in the file until their rows are read, so that they are never whole in
   * memory: for engines with `takesRows`. Absent where weights are in memory anyway.
   */
  readonly byRows?: Weights | undefined;
}

/** The naming and layout conventions of a checkpoint. */
export type CheckpointFormat = 'hugging-face' | 'gguf';

/**
 * Returns the weights of a decoder in a checkpoint; those of one call are read together. Where `config.tied` is true, a head that
 * the file has next to the embedding is not read: `openCheckpoint` compares the two.
 * @throws KvError, before anything is read, naming the tensor that is missing, has another shape or type, or would be
 * ignored by this decoder; on reading, for a number that is not finite
 */
export const checkpointWeights = (
  file: CheckpointTensors,
  config: ModelConfig,
  format: CheckpointFormat = 'hugging-face',
): Weights => ({
  ...readWeights(tensorReader(file), config, format),
  byRows: readWeights(tensorReader(file, true), config, format),
});

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
      experts:
        (_, [experts, outputs, inputs]) =>
        async () => ({ outputs: experts * outputs, inputs, parts: [] }),
      has: (name) => config.architecture === 'gemma4_text' && name.endsWith('.layer_scalar'), // of each layer
      checkNames() {},
    },
    config,
    'hugging-face',
  );

function readWeights(reader: TensorReader, config: ModelConfig, format: CheckpointFormat): Weights {
  const { matrix, vector, kernel, rows, has, checkNames } = reader;
  const { hidden: D, vocab, queryHeads: H, perLayer: P, biases, layers: count, mixers, tied } = config;
  const {
    fused,
    fusedGate,
    qkNorm,
    valueNorm,
    norms: usual,
    gainsFromOne,
    interleavedInGguf,
  } = architectures[config.architecture];
  const norms = config.norms ?? usual,
    before = norms !== 'after',
    after = norms !== 'before';
  const gguf = format === 'gguf',
    names = (gguf ? ggufNames : huggingFaceNames)(config.architecture, has);
  const gain = (name: string, width: number): LazyRead<Float32Array> => {
    const load = vector(`${name}.weight`, width);
    return gainsFromOne && !gguf ? convert(load, (gains) => gains.map((w) => 1 + w)) : load;
  };
  const gated = config.attention.outputGate === 'channel',
    headGates = config.attention.outputGate === 'head';
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
    readonly space?: LazyRead<SpaceWeights>;
    readonly gain?: LazyRead<Float32Array>;
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
        qkv: convert(product(headGates ? [...qkv, [at.headGate, H]] : qkv, D), (all) => (gated ? gatesLast(all) : all)),
        bias: convert(bias(biases.qkv, qkv), (all) =>
          gated ? gateBiasesLast(all, H * d) : headGates ? concatArrays([all, new Float32Array(H)]) : all,
        ),
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
        decay: gguf ? logs : convert(logs, (all) => all.map((log) => -Math.exp(log))),
        timeBias: vector(timeBias, valueHeads),
        gain: vector(`${ownGain}.weight`, valueDim),
        keyHeadOf: async () => (gguf && keyHeads < valueHeads ? 'tiled' : 'grouped'),
      }),
      output: [output, values, false],
    };
  };

  const space = (at: LayerNames, mixer: StateSpace): MixerReads => {
    const { heads, headDim, groups, kernel: length } = mixer,
      channels = spaceChannels(mixer),
      inner = heads * headDim,
      { input, kernel: filter, decay, timeBias, skip, gain: ownGain, output } = at.stateSpace,
      all: Parts = [[input, inner + channels + heads]];
    /** Numbers of each head, and of each channel of a group: GGUF files have them as matrices. */
    const ofHeads = (name: string): LazyRead<Float32Array> => (gguf ? kernel(name, heads, 1) : vector(name, heads)),
      logs = ofHeads(decay),
      gains = `${ownGain}.weight`;
    return {
      space: take<SpaceWeights>({
        norm: gain(at.mixerNorm, D),
        input: product(all, D),
        inputBias: bias(mixer.bias, all),
        kernel: kernel(`${filter}.weight`, channels, length),
        kernelBias: bias(mixer.convolutionBias, [[filter, channels]]),
        decay: gguf ? logs : convert(logs, (numbers) => numbers.map((log) => -Math.exp(log))),
        timeBias: vector(timeBias, heads),
        skip: ofHeads(skip),
      }),
      gain: gguf ? kernel(gains, groups, inner / groups) : vector(gains, inner),
      output: [output, inner, mixer.bias],
    };
  };

  // of all layers or of none
  const scaled = mixers.some((_, index) => has(names.layer(index).scale));
  const layers = Array.from({ length: count }, (_, index) => {
    const at = names.layer(index),
      mixer = mixers[index];
    const {
      output: [name, inputs, biased],
      gain: mixerGain,
      ...reads
    } = mixer.kind === 'attention'
      ? attention(at, mixer)
      : mixer.kind === 'gatedDelta'
        ? delta(at, mixer)
        : mixer.kind === 'stateSpace'
          ? space(at, mixer)
          : convolution(at, mixer);
    const { experts } = config,
      routed = experts?.layers[index] === true,
      dense = routed ? at.experts.shared : at,
      width = routed && !experts.shared ? 0 : ffnOf(config, index),
      output: Parts = [[name, D]];
    const gateUp: Parts =
      fused || (fusedGate && !gguf)
        ? [[at.gateUp, 2 * width]]
        : [
            [dense.gate, width],
            [dense.up, width],
          ];
    const down: Parts = [[dense.down, D]];
    return {
      ...reads,
      finish: take<FinishWeights>({
        mixerGain,
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
        perLayer:
          P === undefined
            ? undefined
            : take<LayerInputWeights>({
                gate: matrix(`${at.inputGate}.weight`, P, D),
                output: matrix(`${at.inputOutput}.weight`, D, P),
                norm: gain(at.inputNorm, D),
              }),
        scale: scaled ? vector(at.scale, 1) : undefined,
      }),
    };
  });
  const [embedding, ownHead] = [names.embed, names.head].map((name) => `${name}.weight`),
    // a head that is also the embedding may be stored as the head alone
    embed = matrix(tied && !has(embedding) && has(ownHead) ? ownHead : embedding, vocab, D),
    norm = gain(names.norm, D);
  const table = P === undefined ? undefined : rows(`${names.perLayer.table}.weight`, vocab, count * P),
    perLayer =
      P === undefined || table === undefined
        ? undefined
        : take<PerLayerWeights>({
            input: matrix(`${names.perLayer.input}.weight`, count * P, D),
            norm: gain(names.perLayer.norm, P),
            rows: async () => table,
          });
  const head = tied ? embed : matrix(ownHead, vocab, D);
  checkNames(names.harmless, `the tensors of a ${config.architecture} model with ${count} layers`);
  return {
    embed,
    // layers whose mixers have such weights
    project: (layer) => layers[layer].project!(),
    convolution: (layer) => layers[layer].convolution!(),
    delta: (layer) => layers[layer].delta!(),
    space: (layer) => layers[layer].space!(),
    finish: (layer) => layers[layer].finish(),
    ...(perLayer && { perLayer }),
    norm,
    head,
  };
}

/** Bytes of the embedding that are compared with the head at a time. */
const comparedBytes = 2 ** 22;

/**
 * Returns the configuration of a safetensors file's decoder with what the file says of its head, as transformers takes it: a
 * head that is stored next to the embedding is tied only if it holds the same numbers. The fields of a larger model often say
 * nothing true of its text model's head, which is tied where the file has none.
 */
export async function withHead(config: ModelConfig, file: CheckpointTensors): Promise<ModelConfig> {
  const has = (tensor: string): boolean => file.tensors.has(tensor),
    names = huggingFaceNames(config.architecture, has),
    [embed, head] = [`${names.embed}.weight`, `${names.head}.weight`];
  if (!has(head)) return names.embed === 'model.embed_tokens' ? config : { ...config, tied: true };
  return { ...config, tied: config.tied && (!has(embed) || (await sameBytes(file, embed, head))) };
}

async function sameBytes(file: CheckpointTensors, a: string, b: string): Promise<boolean> {
  const [one, other] = [a, b].map((name) => file.tensors.get(name)!), // both are present
    length = storedOf({ tensors: new Map([[a, one]]) }).bytes;
  if (one.type !== other.type || one.shape.join() !== other.shape.join()) return false;
  for (let from = 0; from < length; from += comparedBytes) {
    const part = { from, length: Math.min(comparedBytes, length - from) },
      [x, y] = await Promise.all([file.bytes(a, part), file.bytes(b, part)]);
    for (let i = 0; i < x.length; i++) if (x[i] !== y[i]) return false;
  }
  return true;
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
