import { KvError } from '@kv/core';
import { attend, type Attend, type AttendOptions } from '../attention.ts';
import type { ModelConfig } from '../checkpoint/config.ts';
import { dense, denseRows, owned } from '../checkpoint/matrix.ts';
import type { Matrix } from '../checkpoint/matrix.ts';
import type { Weights } from '../checkpoint/weights.ts';
import { createAngles } from './angles.ts';
import type { Angles, Engine, Program, Runnable } from './program.ts';
import { finishProgram, headProgram, projectProgram } from './programs.ts';
import { rmsNorm, rowsOf } from './rows.ts';

/**
 * Queries `[H, m, d]`, keys and values `[G, m, d]` of m tokens in one layer, f32; queries and keys are turned by their
 * position.
 */
export interface Projected {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

/** Rows that went through each matrix product: by layer, and through the head. Only ever counts up. */
export interface RowCounts {
  readonly qkv: Float64Array;
  readonly output: Float64Array;
  readonly gateUp: Float64Array;
  readonly down: Float64Array;
  head: number;
}

/**
 * A decoder's arithmetic without its attention: what stands before and after it, layer by layer. Rows are tokens, f32.
 */
export interface Decoder {
  readonly config: ModelConfig;
  /** Name of the engine that runs it. */
  readonly engine: string;
  readonly attend: Attend;
  /** Where the engine keeps caches, if not on the host. */
  readonly memory?: NonNullable<Engine['memory']>;
  /**
   * What the engine prepared, and the embedding `[vocab, D]` as stored: for an engine that runs whole passes by itself.
   */
  readonly prepared: {
    readonly layers: readonly { readonly project: Runnable; readonly finish: Runnable }[];
    readonly head: Runnable;
    readonly embedding: Matrix;
  };
  readonly rows: RowCounts;
  /** What turns a layer's queries and keys at these positions, as `project` does it. */
  angles(layer: number, positions: Uint32Array, length?: number): Angles;
  /** Embeddings `[m, D]`. @throws KvError for an id outside the vocabulary. */
  embed(ids: ArrayLike<number>): Float32Array;
  /**
   * Norm, q|k|v and rotation of x `[m, D]` at the tokens' original positions `[m]`.
   * @param length tokens of the sequence, for scalings that depend on it (LongRoPE); the same for a sequence's whole
   * life, or its keys do not fit together. @defaultValue the last position and 1
   */
  project(layer: number, x: Float32Array, positions: Uint32Array, length?: number): Promise<Projected>;
  /**
   * What follows attention, `[m, H * d]`: output product, residual, norm, gated feed-forward layer, residual. x `[m,
   * D]` to a new `[m, D]`.
   */
  finish(layer: number, x: Float32Array, attended: Float32Array): Promise<Float32Array>;
  /** `attend`, and `finish` on what it gives: for one token in one call of the engine, where it can. */
  attendAndFinish(layer: number, x: Float32Array, attention: AttendOptions): Promise<Float32Array>;
  /** Whether a token's attention passes over the free slots of a cache as well: then its storage should fit. */
  readonly passesFreeSlots: boolean;
  /** The output product's weight `[D, H * d]` as f32; a layer's is kept as stored and decoded at each call. */
  outputWeight(layer: number): Float32Array;
  /** The final norm of x `[rows, D]`. */
  hiddenNorm(x: Float32Array): Float32Array;
  /** Logits `[rows, vocab]` of x `[rows, D]`: final norm, head and any soft cap. */
  logits(x: Float32Array): Promise<Float32Array>;
  /** Gives the engine's memory back. */
  destroy(): void;
}

interface Layer {
  readonly project: Runnable;
  readonly finish: Runnable;
  readonly output: Matrix;
}

/**
 * A decoder whose programs `engine` runs. Weights are read one program at a time and dropped once the engine has taken
 * them; only the
 * embedding and the output products, which some policies read, are kept, as stored. @throws KvError for whatever
 * reading or preparing throws; what was prepared before is destroyed.
 */
export async function createDecoder(config: ModelConfig, weights: Weights, engine: Engine): Promise<Decoder> {
  const {
    hidden: D,
    vocab,
    normEps,
    embeddingScale,
    layers: count,
    queryHeads,
    kvHeads,
    headDim,
    attention: { softcap },
  } = config;
  const made: Runnable[] = [];
  const prepare = async (program: Program): Promise<Runnable> => {
    const runnable = await engine.prepare(program);
    made.push(runnable);
    return runnable;
  };
  const prepareLayer = async (
    finish: Program,
    next: Program | undefined,
  ): Promise<readonly [finish: Runnable, next: Runnable | undefined]> => {
    if (engine.prepareLayer === undefined) return [await prepare(finish), next && (await prepare(next))];
    const layer = await engine.prepareLayer(
      { queryHeads, kvHeads, headDim, ...(softcap !== undefined && { softcap }) },
      finish,
      next,
    );
    made.push(layer[0]);
    return layer;
  };
  const destroy = (): void => {
    for (const runnable of made.splice(0)) runnable.destroy();
  };
  const layers: Layer[] = [];
  try {
    let project = await prepare(projectProgram(0, config, await weights.project(0)));
    for (let l = 0; l < count; l++) {
      const rest = await weights.finish(l);
      const [finish, next] = await prepareLayer(
        finishProgram(l, config, rest),
        l + 1 < count ? projectProgram(l + 1, config, await weights.project(l + 1)) : undefined,
      );
      layers.push({ project, finish, output: owned(rest.output) });
      project = next ?? project;
    }
    const norm = await weights.norm(),
      embed = owned(await weights.embed());
    const head = await prepare(headProgram(config, norm, config.tied ? embed : await weights.head()));
    const zeros = (): Float64Array => new Float64Array(count);
    const rows: RowCounts = { qkv: zeros(), output: zeros(), gateUp: zeros(), down: zeros(), head: 0 };
    const ropes = new Map(Array.from(new Set(config.ropes), (rope) => [rope, createAngles(rope)])),
      anglesOf = config.ropes.map((rope) => ropes.get(rope)!); // of the layer's own entry above
    const angles: Decoder['angles'] = (layer, positions, length = (positions.at(-1) ?? -1) + 1) =>
      anglesOf[layer](positions, length);
    /** Where the rows of the last projection stand: most likely those of the next one too. */
    let stood: Uint32Array | undefined, over: number | undefined;
    /** What the layer after this one most likely turns by. */
    const ahead = (layer: number): Angles | undefined =>
      stood !== undefined && layer + 1 < count ? angles(layer + 1, stood, over) : undefined;
    const at = (layer: number): Layer => {
      const found = layers[layer];
      if (found === undefined)
        throw new KvError('decoder', `a layer must be an integer from 0 to ${count - 1}, got ${layer}`);
      return found;
    };
    const note = (layer: number, m: number, ...products: readonly Exclude<keyof RowCounts, 'head'>[]): void => {
      for (const name of products) rows[name][layer] = rows[name][layer] + m;
    };
    const finish: Decoder['finish'] = async (layer, x, attended) => {
      const { finish } = at(layer),
        m = x.length / D;
      note(layer, m, 'output', 'gateUp', 'down');
      return (await finish.run([x, attended], m, ahead(layer)))[0];
    };
    return {
      config,
      engine: engine.name,
      attend: engine.attend ?? attend,
      ...(engine.memory && { memory: engine.memory }),
      prepared: { layers, head, embedding: embed },
      rows,
      angles,
      embed(ids) {
        const x = new Float32Array(ids.length * D);
        for (let i = 0; i < ids.length; i++) {
          const id = ids[i];
          if (!(Number.isInteger(id) && id >= 0 && id < vocab))
            throw new KvError('decoder', `a token id must be an integer from 0 to ${vocab - 1}, got ${id}`);
          x.set(denseRows(embed, id, 1), i * D);
        }
        return embeddingScale === 1 ? x : x.map((value) => value * embeddingScale);
      },
      async project(layer, x, positions, length) {
        const { project } = at(layer),
          m = positions.length;
        note(layer, m, 'qkv');
        [stood, over] = [positions, length];
        const [q, k, v] = await project.run([x], m, angles(layer, positions, length));
        return { q: q, k: k, v: v };
      },
      finish,
      async attendAndFinish(layer, x, attention) {
        const fused = at(layer).finish.runAfter?.(attention, x, ahead(layer));
        if (fused === undefined) return finish(layer, x, await (engine.attend ?? attend)(attention));
        note(layer, x.length / D, 'output', 'gateUp', 'down');
        return (await fused)[0];
      },
      passesFreeSlots: engine.prepareLayer !== undefined,
      outputWeight: (layer) => dense(at(layer).output),
      hiddenNorm: (x) => rmsNorm(rowsOf(x, D), x.length / D, norm, normEps),
      async logits(x) {
        const m = x.length / D;
        rows.head += m;
        return (await head.run([x], m))[0];
      },
      destroy,
    };
  } catch (error) {
    destroy();
    throw error;
  }
}
