import type { ModelConfig, Matrix, Weights } from '@kv/checkpoints';
import { denseRows, headsOf, ownBytes, slotLayers } from '@kv/checkpoints';
import { expectIds } from '../expect-given.ts';
import { createAngles } from './angles.ts';
import type { Angles, Engine, PreparedProgram, Program, Runnable, WeightRows } from './program.ts';
import { deltaRule, type DeltaRule } from './gated-delta.ts';
import { finishProgram, headProgram, mixerProgram, perLayerProgram, projectProgram } from './programs.ts';
import { convolutionKernel, type ConvolutionKernel } from './short-convolution.ts';
import { spaceRule, type SpaceRule } from './state-space.ts';

/** Rows that went through each matrix product, by layer, and through the head. Never decreases. */
export interface RowCounts {
  readonly qkv: Float64Array;
  readonly output: Float64Array;
  readonly gateUp: Float64Array;
  readonly down: Float64Array;
  head: number;
}

/** A layer's programs, before and after its mixer. */
export interface DecoderLayer<R extends PreparedProgram = Runnable> {
  /**
   * From the residual stream `[m, D]` to what its mixer takes: queries, keys and values, rotated by their positions, with
   * gates where heads have them; or the rows that another mixer takes, see `mixerProgram`.
   */
  readonly project: R;
  /** From its mixer's result and the residual stream to the next layer's residual stream. */
  readonly finish: R;
  /** Gain `[D]` of the norm before its projections; absent where there is none. */
  readonly norm?: Float32Array | undefined;
  /** The learned sink of each query head `[H]`; absent where there is none. */
  readonly sinks?: Float32Array | undefined;
  /** The output product's weight `[D, H * d]`, read by some policies; absent where it has no attention. */
  readonly output?: WeightRows | undefined;
  /** The kernel of its short convolution, if it has one. */
  readonly convolution?: ConvolutionKernel;
  /** The constants of its gated delta rule, if it has one. */
  readonly delta?: DeltaRule;
  /** The constants of its state space, if it has one. */
  readonly space?: SpaceRule;
}

/** The programs of a decoder as its engine prepared them. */
export interface Decoder<R extends PreparedProgram = Runnable> {
  readonly config: ModelConfig;
  readonly layers: readonly DecoderLayer<R>[];
  /** The inputs that each layer takes of a token, where the model has such. */
  readonly perLayer?: PerLayerInputs<R>;
  /** From the residual stream to logits `[m, vocab]`. */
  readonly head: R;
  /** `[vocab, D]`, as stored; absent where the engine holds it as the head and reads its rows back. */
  readonly embedding?: Matrix;
  /** The final norm `[D]`. */
  readonly norm: Float32Array;
  /** Whether a layer's programs were prepared as one, so that a token also passes over the free slots of a cache. */
  readonly fused: boolean;
  /** Updated by the code that runs the programs. */
  readonly rows: RowCounts;
  /**
   * Returns the rotary angles of a layer's queries and keys at these positions; empty without rotary positions.
   * @param length tokens of the sequence. @defaultValue the last position plus 1
   * @param shift how far these lie below the tokens' positions in the text, by which queries may be scaled. @defaultValue 0
   */
  angles(layer: number, positions: Uint32Array, length?: number, shift?: number): Angles;
  /** Returns embeddings `[m, D]`. @throws KvError for an id outside the vocabulary. */
  embed(ids: ArrayLike<number>): Float32Array;
  /** Frees the engine's memory. */
  destroy(): void;
}

/** The inputs `[m, layers * P]` that the `finish` programs of layers take of each token, see `perLayerProgram`. */
export interface PerLayerInputs<R extends PreparedProgram = Runnable> {
  /** From embeddings `[m, D]` and rows of the table to the inputs. */
  readonly program: R;
  /** Reads the tokens' rows of the table from the model's file. @throws KvError if it cannot be read */
  rows(ids: ArrayLike<number>): Promise<Float32Array>;
}

/** Computes the inputs that layers take of tokens with embeddings x `[m, D]`; undefined where the model has none. */
export async function layerInputs(
  { perLayer }: Pick<Decoder, 'perLayer'>,
  ids: ArrayLike<number>,
  x: Float32Array,
): Promise<Float32Array | undefined> {
  if (!perLayer) return undefined;
  const [inputs] = await perLayer.program.run([x, await perLayer.rows(ids)], ids.length);
  return inputs;
}

/**
 * Creates a decoder whose programs `engine` runs. Weights are read one program at a time, by rows where the engine takes
 * them so, and dropped once it has taken them. Only the embedding and the output products, which some policies read, are kept as stored, unless the
 * engine can read their rows back.
 * @throws KvError for a model that the engine cannot run, before weights are read; whatever reading or preparing throws, and
 *   what was prepared before is destroyed
 */
export async function createDecoder<R extends PreparedProgram>(
  config: ModelConfig,
  whole: Weights,
  engine: Engine<R>,
): Promise<Decoder<R>> {
  engine.expect?.(config);
  const weights = (engine.takesRows && whole.byRows) || whole;
  const {
    hidden: D,
    vocab,
    embeddingScale,
    layers: count,
    attention: { softcap, outputGate, queryScale, learnedSinks = false },
  } = config;
  /** Whether programs may be prepared with a layer's attention. */
  const fused =
    engine.prepareLayer !== undefined &&
    slotLayers(config).length === count &&
    config.perLayer === undefined &&
    !outputGate &&
    !learnedSinks;
  const made: R[] = [];
  const prepare = async (program: Program): Promise<R> => {
    const runnable = await engine.prepare(program);
    made.push(runnable);
    return runnable;
  };
  const prepareLayer = async (
    l: number,
    finish: Program,
    next: Program | undefined,
  ): Promise<readonly [finish: R, next: R | undefined]> => {
    if (!fused || engine.prepareLayer === undefined) return [await prepare(finish), next && (await prepare(next))];
    const layer = await engine.prepareLayer(
      { ...headsOf(config, l), ...(softcap !== undefined && { softcap }) },
      finish,
      next,
    );
    made.push(layer[0]);
    return layer;
  };
  const destroy = (): void => {
    for (const runnable of made.splice(0)) runnable.destroy();
  };
  const layers: DecoderLayer<R>[] = [];
  try {
    const gains: (Float32Array | undefined)[] = [],
      sunk: (Float32Array | undefined)[] = [],
      mixers: (Pick<DecoderLayer, 'convolution' | 'delta' | 'space'> | undefined)[] = [];
    const projecting = async (l: number): Promise<Program> => {
      const mixer = config.mixers[l];
      // weights have what the mixers of their layers read
      if (mixer.kind === 'shortConvolution') {
        const read = await weights.convolution!(l);
        mixers[l] = { convolution: convolutionKernel(read) };
        return mixerProgram(l, config, read);
      }
      if (mixer.kind === 'gatedDelta') {
        const read = await weights.delta!(l);
        mixers[l] = { delta: deltaRule(read, mixer, config.normEps) };
        return mixerProgram(l, config, read);
      }
      if (mixer.kind === 'stateSpace') {
        const read = await weights.space!(l);
        mixers[l] = { space: spaceRule(read, mixer) };
        return mixerProgram(l, config, read);
      }
      const read = await weights.project(l);
      gains[l] = read.norm?.slice();
      sunk[l] = read.sinks?.slice();
      return projectProgram(l, config, read);
    };
    let project = await prepare(await projecting(0));
    for (let l = 0; l < count; l++) {
      const rest = await weights.finish(l);
      const [finish, next] = await prepareLayer(
        l,
        finishProgram(l, config, rest),
        l + 1 < count ? await projecting(l + 1) : undefined,
      );
      const mixer = mixers[l],
        output = mixer ? undefined : (finish.stored?.('output') ?? rowsOf(ownBytes(rest.output)));
      layers.push({ project, finish, norm: gains[l], sinks: sunk[l], output, ...mixer });
      project = next ?? project;
    }
    const norm = await weights.norm(),
      stored = weights === whole ? ownBytes(await whole.embed()) : undefined;
    const head = await prepare(
        headProgram(config, norm, await (config.tied ? (stored ?? weights.embed()) : weights.head())),
      ),
      held = config.tied ? head.stored?.('head') : undefined,
      embedding = held ? undefined : (stored ?? ownBytes(await whole.embed())),
      row = held ?? rowsOf(embedding!);
    const given = config.perLayer === undefined ? undefined : await weights.perLayer!(), // of a model with such inputs
      perLayer = given && { program: await prepare(perLayerProgram(config, given)), rows: given.rows };
    const zeros = (): Float64Array => new Float64Array(count);
    const ropes = new Map(Array.from(new Set(config.ropes), (rope) => [rope, createAngles(rope, queryScale)])),
      anglesOf = config.ropes.map((rope) => ropes.get(rope)!); // of the layer's own entry above
    return {
      config,
      layers,
      head,
      ...(perLayer && { perLayer }),
      ...(embedding && { embedding }),
      norm,
      fused,
      rows: { qkv: zeros(), output: zeros(), gateUp: zeros(), down: zeros(), head: 0 },
      angles: (layer, positions, length = (positions.at(-1) ?? -1) + 1, shift = 0) =>
        anglesOf[layer](positions, length, shift),
      embed(ids) {
        const x = new Float32Array(ids.length * D);
        expectIds(ids, vocab);
        for (let i = 0; i < ids.length; i++) x.set(row(ids[i], 1), i * D);
        return embeddingScale === 1 ? x : x.map((value) => value * embeddingScale);
      },
      destroy,
    };
  } catch (error) {
    destroy();
    throw error;
  }
}

const rowsOf =
  (matrix: Matrix): WeightRows =>
  (from, count) =>
    denseRows(matrix, from, count);
