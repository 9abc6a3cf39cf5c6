import type { ExpertsConfig } from '../config/experts.ts';
import type { ExpertNames } from '../config/names.ts';
import { byTurns, dense, matrixOf, unzip, type Matrix } from '../format/matrix.ts';
import type { LazyRead, TensorReader } from '../format/tensor-reader.ts';
import { convert, stacked, take, type Reads } from './lazy.ts';

/** Weights of a layer's E routed experts of `width`. */
export interface ExpertWeights {
  /** `[E, D]` */
  readonly router: Matrix;
  /** `[E]` */
  readonly routerBias?: Float32Array;
  /** `[E]`, added to scores for choosing only */
  readonly selectionBias?: Float32Array;
  /** gate and up of expert 0, then of expert 1 and so on, `[E * 2 * width, D]` */
  readonly gateUp: Matrix;
  /** `[E * 2 * width]` */
  readonly gateUpBias?: Float32Array;
  /** `[E * D, width]` */
  readonly down: Matrix;
  /** `[E * D]` */
  readonly downBias?: Float32Array;
  /** `[1, D]`: the sigmoid of its product multiplies the result of the shared expert */
  readonly sharedGate?: Matrix;
  /** `[E]`: multiplies the weights of the chosen experts */
  readonly weightScale?: Float32Array;
  /** Present where router and experts have norms of their own */
  readonly norms?: ExpertNorms;
}

/** Gains `[D]` of norms of the router's and the experts' own. */
export interface ExpertNorms {
  /** Of the residual stream, before the router's product; with its factor 1 / sqrt(D). */
  readonly router: Float32Array;
  /** Of the residual stream, before the experts. */
  readonly before: Float32Array;
  /** Of what the experts give. */
  readonly after: Float32Array;
  /** Of what the shared expert gives. */
  readonly shared: Float32Array;
}

/** Two arrays of E rows, by turns. */
const rowsByTurns = (a: Float32Array, b: Float32Array, rows: number): Float32Array =>
  dense(byTurns(matrixOf(a, rows, a.length / rows), matrixOf(b, rows, b.length / rows), rows)).slice();

/**
 * Returns the reads of a layer's experts, whichever of these a file has: gate and up of all experts in one tensor (whose
 * rows alternate in gpt-oss's, which are transposed where they are not quantised), in a tensor each, or in two tensors of
 * every expert.
 * @throws KvError naming the tensor that is missing or has another shape
 */
export function expertReads(
  { matrix, vector, kernel, experts, has }: TensorReader,
  names: ExpertNames,
  { count, width, selectionBias, bias, activation, shared, ownNorms = false }: ExpertsConfig,
  { hidden, gguf }: { readonly hidden: number; readonly gguf: boolean },
): Reads<ExpertWeights> {
  const apart = (name: string, outputs: number, inputs: number): LazyRead<Matrix> =>
      matrix(`${name}.weight`, outputs, inputs),
    first = names.one(0),
    each = (): readonly ReturnType<ExpertNames['one']>[] => Array.from({ length: count }, (_, e) => names.one(e));
  const gateUp = (): LazyRead<Matrix> => {
    if (has(names.gate) || has(names.up)) {
      const gate = experts(names.gate, [count, width, hidden]),
        up = experts(names.up, [count, width, hidden]);
      return async () => byTurns(...(await Promise.all([gate(), up()])), count);
    }
    if (has(`${first.gate}.weight`))
      return stacked(each().flatMap(({ gate, up }) => [apart(gate, width, hidden), apart(up, width, hidden)]));
    const read = experts(names.gateUp, [count, 2 * width, hidden], zipped);
    return zipped ? async () => unzip(count)(await read()) : read;
  };
  const gateUpBias = (): LazyRead<Float32Array> => {
    if (has(names.gateBias) || has(names.upBias)) {
      const gate = kernel(names.gateBias, count, width),
        up = kernel(names.upBias, count, width);
      return async () => rowsByTurns(...(await Promise.all([gate(), up()])), count);
    }
    const read = kernel(names.gateUpBias, count, 2 * width);
    return zipped ? async () => unzipRows(await read(), count) : read;
  };
  /** Whether rows of gate and up alternate in one tensor of both. */
  const zipped = activation === 'clamped' && !gguf;
  return {
    router: apart(names.router, count, hidden),
    routerBias: bias ? vector(`${names.router}.bias`, count) : undefined,
    selectionBias: selectionBias ? vector(names.selectionBias, count) : undefined,
    gateUp: gateUp(),
    gateUpBias: bias ? gateUpBias() : undefined,
    down:
      has(names.down) || !has(`${first.down}.weight`)
        ? experts(names.down, [count, hidden, width], zipped)
        : stacked(each().map(({ down }) => apart(down, hidden, width))),
    downBias: bias ? kernel(names.downBias, count, hidden) : undefined,
    sharedGate: shared?.gated ? sharedGate() : undefined,
    weightScale: ownNorms && (!gguf || has(names.weightScale)) ? vector(names.weightScale, count) : undefined,
    norms: ownNorms
      ? take<ExpertNorms>({
          router: convert(vector(names.norms.router, hidden), (gain) => gain.map((w) => w / Math.sqrt(hidden))),
          before: vector(names.norms.before, hidden),
          after: vector(names.norms.after, hidden),
          shared: vector(names.norms.shared, hidden),
        })
      : undefined,
  };

  function sharedGate(): LazyRead<Matrix> {
    const read = kernel(names.sharedGate, 1, hidden);
    return async () => matrixOf(await read(), 1, hidden);
  }
}

const unzipRows = (values: Float32Array, experts: number): Float32Array =>
  dense(unzip(experts)(matrixOf(values, values.length, 1)));
