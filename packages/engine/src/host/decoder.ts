import { KvError } from '@kv/core';
import { attend } from '../attention/attention.ts';
import type { Attend, AttendOptions } from '../attention/attention.ts';
import { layerInputs } from '../decoder/decoder.ts';
import type { Decoder, DecoderLayer, RowCounts } from '../decoder/decoder.ts';
import { keepsSlots } from '@kv/checkpoints';
import type { Angles, Engine, Runnable } from '../decoder/program.ts';
import { rmsNorm } from '../decoder/rows.ts';
import { gatedDelta } from '../decoder/gated-delta.ts';
import { gateOutputs } from '../decoder/output-gate.ts';
import { shortConvolution } from '../decoder/short-convolution.ts';
import { stateSpace } from '../decoder/state-space.ts';
import type { RowEngine } from '../attention/row-engine.ts';

/** A program that may include a layer's attention. */
export interface HostRunnable extends Runnable {
  /**
   * Computes a layer's attention and `run` on x and its result in one call; undefined for cases that the engine leaves
   * to `attend`.
   */
  runAfter?(attention: AttendOptions, x: Float32Array, angles?: Angles): Promise<readonly Float32Array[]> | undefined;
}

/** An engine for caches on the host. */
export interface HostEngine extends Engine<HostRunnable> {
  /** Attention over a cache on the host, if this engine has a faster one than `attend`. */
  readonly attend?: Attend;
  /** Whether its `attend` also computes the statistics of windows. @defaultValue false */
  readonly attendsWindows?: boolean;
  /** The arithmetic of `attend` and of statistics. @defaultValue plain loops */
  readonly rowEngine?: RowEngine;
}

/**
 * Queries `[H, m, d]`, keys and values `[G, m, d]` of m tokens in one layer, f32; queries and keys are rotated by their
 * position. Keys and values of a layer that reads another's slots are empty.
 */
export interface Projection {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
  /** Gates `[m, H * d]` or `[m, H]` before their sigmoid, of what heads give, where the model has them. */
  readonly gate?: Float32Array | undefined;
}

/** A decoder's arithmetic over arrays on the host, layer by layer. Rows are tokens, f32. */
export interface HostDecoder extends Decoder<HostRunnable> {
  /** Attention of new queries over a layer's cache. */
  readonly attend: Attend;
  /** The arithmetic of attention rows that are inspected. @defaultValue plain loops */
  readonly rowEngine?: RowEngine | undefined;
  /** Whether `attend` also computes the statistics of windows. */
  readonly attendsWindows: boolean;
  /**
   * Computes norm, q|k|v and rotation of x `[m, D]` at the tokens' positions `[m]`.
   * @param length tokens of the sequence, for scalings that depend on it (LongRoPE); constant for a sequence's whole
   * life, or its keys do not fit together. @defaultValue the last position plus 1
   * @param shift how far these lie below the tokens' positions in the text, by which queries may be scaled. @defaultValue 0
   */
  project(layer: number, x: Float32Array, positions: Uint32Array, length?: number, shift?: number): Promise<Projection>;
  /** Like `project`, given the angles of the rows' positions. */
  projectBy(layer: number, x: Float32Array, angles: Angles): Promise<Projection>;
  /**
   * Computes a layer's short convolution, gated delta rule or state space of x `[m, D]`, up to its output product.
   * @param state what the tokens before left, which is replaced by what these leave, see `shortConvolution`, `gatedDelta`
   * and `stateSpace`
   */
  mix(layer: number, x: Float32Array, state: Float32Array): Promise<Float32Array>;
  /**
   * Computes what follows a layer's mixer, `[m, H * d]`: output product, residual, norm, gated feed-forward layer, residual.
   * x `[m, D]` to a new `[m, D]`.
   * @param gate multiplies the mixer's result by its sigmoid, see `Projection`
   * @param inputs what layers take of these tokens, where `layerInputs` gives it
   */
  finish(
    layer: number,
    x: Float32Array,
    attended: Float32Array,
    gate?: Float32Array,
    inputs?: Float32Array,
  ): Promise<Float32Array>;
  /**
   * Computes what each layer takes of tokens in addition to the residual stream, `[m, layers * P]`; undefined where the
   * model has no such inputs.
   * @param x the tokens' embeddings `[m, D]`
   */
  layerInputs(ids: ArrayLike<number>, x: Float32Array): Promise<Float32Array | undefined>;
  /** Runs `attend`, and `finish` on its result: for one token in one call of the engine, where possible. */
  attendAndFinish(
    layer: number,
    x: Float32Array,
    attention: AttendOptions,
    gate?: Float32Array,
    inputs?: Float32Array,
  ): Promise<Float32Array>;
  /** Returns the rows that a layer's projections read of x `[m, D]`, after their norm. */
  readInput(layer: number, x: Float32Array): Float32Array;
  /** Returns |h|_2 of the rows that a layer's projections read of x `[m, D]`, after their norm, f64 `[m]`. */
  readLengths(layer: number, x: Float32Array): Float64Array;
  /** Returns the output product's weight `[D, H * d]` as f32, decoded from its stored form at each call. */
  outputWeight(layer: number): Float32Array;
  /** Returns the final norm of x `[rows, D]`. */
  hiddenNorm(x: Float32Array): Float32Array;
  /** Returns logits `[rows, vocab]` of x `[rows, D]`: final norm, head and any soft cap. */
  logits(x: Float32Array): Promise<Float32Array>;
}

/** Keys or values of a layer that has none. */
const none = new Float32Array(0);

/**
 * Returns a decoder's arithmetic on the host, with its engine's attention.
 * @throws KvError, from its methods, for a layer that does not exist
 */
export function hostDecoder(
  decoder: Decoder<HostRunnable>,
  { rowEngine, ...engine }: Pick<HostEngine, 'attend' | 'attendsWindows' | 'rowEngine'> = {},
): HostDecoder {
  const attends: Attend =
      engine.attend ?? (rowEngine ? (options) => attend({ ...options, engine: rowEngine }) : attend),
    { attendsWindows = engine.attend === undefined } = engine;
  const {
    config: { hidden: D, normEps },
    layers,
    head,
    norm,
    rows,
    angles,
  } = decoder;
  /** Positions of the last projection, most likely those of the next one too. */
  let lastPositions: Uint32Array | undefined, lastLength: number | undefined, lastShift: number | undefined;
  /** The angles that the next layer most likely rotates by. */
  const ahead = (layer: number): Angles | undefined =>
    lastPositions !== undefined && layer + 1 < layers.length
      ? angles(layer + 1, lastPositions, lastLength, lastShift)
      : undefined;
  const at = (layer: number): DecoderLayer<HostRunnable> => {
    const found = layers[layer];
    if (found === undefined)
      throw new KvError('decoder', `a layer must be an integer from 0 to ${layers.length - 1}, got ${layer}`);
    return found;
  };
  const note = (layer: number, m: number, ...products: readonly Exclude<keyof RowCounts, 'head'>[]): void => {
    for (const name of products) rows[name][layer] = rows[name][layer] + m;
  };
  const finish: HostDecoder['finish'] = async (layer, x, attended, gate, inputs) => {
    const m = x.length / D,
      { finish } = at(layer);
    note(layer, m, 'output', 'gateUp', 'down');
    const given = [x, gate ? gateOutputs(attended, gate) : attended, ...(inputs ? [inputs] : [])];
    return (await finish.run(given, m, ahead(layer)))[0];
  };
  const projected: HostDecoder['projectBy'] = async (layer, x, by) => {
    const { project } = at(layer),
      m = x.length / D;
    note(layer, m, 'qkv');
    const [q, ...rest] = await project.run([x], m, by),
      [k, v, gate] = keepsSlots(decoder.config.mixers[layer]) ? rest : [none, none, ...rest];
    return { q, k, v, gate };
  };
  const readInput: HostDecoder['readInput'] = (layer, x) => {
    const { norm: gain } = at(layer);
    return gain === undefined ? x : rmsNorm(x, gain, normEps);
  };
  return {
    ...decoder,
    attend: attends,
    attendsWindows,
    ...(rowEngine && { rowEngine }),
    async project(layer, x, positions, length, shift) {
      at(layer);
      [lastPositions, lastLength, lastShift] = [positions, length, shift];
      return projected(layer, x, angles(layer, positions, length, shift));
    },
    async projectBy(layer, x, by) {
      lastPositions = undefined;
      return projected(layer, x, by);
    },
    async mix(layer, x, state) {
      const { project, convolution, delta, space } = at(layer),
        m = x.length / D;
      if (!convolution && !delta && !space)
        throw new KvError('decoder', `expected layer ${layer} to carry a state, got attention`);
      note(layer, m, 'qkv');
      const [rows] = await project.run([x], m);
      if (delta) return gatedDelta(rows, delta, state);
      return space ? stateSpace(rows, space, state) : shortConvolution(rows, convolution!, state); // one of the three
    },
    finish,
    layerInputs: (ids, x) => layerInputs(decoder, ids, x),
    async attendAndFinish(layer, x, attention, gate, inputs) {
      const fused = gate || inputs ? undefined : at(layer).finish.runAfter?.(attention, x, ahead(layer));
      if (fused === undefined) return finish(layer, x, await attends(attention), gate, inputs);
      note(layer, x.length / D, 'output', 'gateUp', 'down');
      return (await fused)[0];
    },
    readInput,
    readLengths(layer, x) {
      const m = x.length / D,
        h = readInput(layer, x);
      return Float64Array.from({ length: m }, (_, i) => Math.hypot(...h.subarray(i * D, (i + 1) * D)));
    },
    outputWeight: (layer) => at(layer).output!(0, D), // of a layer with attention, which policies see alone
    hiddenNorm: (x) => rmsNorm(x, norm, normEps),
    async logits(x) {
      const m = x.length / D;
      rows.head += m;
      return (await head.run([x], m))[0];
    },
  };
}
