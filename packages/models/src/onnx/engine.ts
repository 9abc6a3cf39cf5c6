import { KvError } from '@kv/core';
import type { Angles, Engine, Program, Runnable } from '../decoder/program.ts';
import { onnxAttend } from './attention.ts';
import type { WeightForm } from './product.ts';
import { pairGraph, programGraph, rotaryOf } from './program-graph.ts';
import { sessionOptions, type Onnx, type OnnxSession, type OnnxTensor } from './runtime.ts';

export interface OnnxEngineOptions {
  /** @defaultValue 1 */
  readonly threads?: number;
  /**
   * `f32` is exact: every product in f32. `stored` keeps 4- and 8-bit weights as they are and rounds the activations that meet them to 8 bits in
   * blocks of 16 or 32: a product is off by less than 1 % of its largest number.
   * @defaultValue 'f32'
   */
  readonly weights?: WeightForm;
}

/** Runs programs on ONNX Runtime, each as one graph in memory that holds its weights. */
export function onnxEngine(onnx: Onnx, { threads = 1, weights = 'f32' }: OnnxEngineOptions = {}): Engine {
  const open = async (name: string, model: Uint8Array): Promise<Graph> => graphOf(onnx, name, await onnx.InferenceSession.create(model, sessionOptions(threads)));
  return {
    name: `onnxruntime-node, ${weights === 'f32' ? 'f32' : 'stored weights'}, ${threads} thread${threads === 1 ? '' : 's'}`,
    attend: onnxAttend(onnx, { threads }),
    async prepare(program) {
      const { run, destroy } = await open(program.name, programGraph(program, weights)), rotary = rotaryOf(program);
      return {
        run: async (inputs, m, angles) => {
          if (m === 0) return program.outputs.map(() => new Float32Array(0));
          return run(feeds(program, inputs), m, rotary === undefined ? undefined : expectAngles(angles, rotary, program));
        },
        destroy,
      };
    },
    async preparePair(first, second) {
      return pairOf(first, second, await open(`${first.name}, ${second.name}`, pairGraph(first, second, weights)));
    },
  };
}

interface Graph {
  /** Named inputs `[rows, width]`, each of m rows unless its length says otherwise. */
  run(inputs: readonly Input[], m: number, angles?: Angles): Promise<Float32Array[]>;
  destroy(): void;
}

type Input = readonly [name: string, data: Float32Array, width: number];

function graphOf(onnx: Onnx, name: string, session: OnnxSession): Graph {
  let alive: OnnxSession | undefined = session;
  return {
    async run(inputs, m, angles) {
      if (alive === undefined) throw new KvError(name, 'expected a program that was not destroyed, got one that was');
      const tensors: Record<string, OnnxTensor> = {};
      const all = angles === undefined ? inputs : [...inputs, ['cos', angles.cos, angles.rotary / 2] as const, ['sin', angles.sin, angles.rotary / 2] as const];
      for (const [key, data, width] of all) tensors[key] = new onnx.Tensor('float32', data, [data.length / width, width]);
      const result = await alive.run(tensors);
      const out: Float32Array[] = [];
      for (let i = 0; result[`y${i}`] !== undefined; i++) out.push(result[`y${i}`]!.data as Float32Array);
      return out;
    },
    destroy() {
      void alive?.release();
      alive = undefined;
    },
  };
}

const feeds = (program: Program, inputs: readonly Float32Array[]): Input[] => program.inputs.map(({ width }, i) => [`x${i}`, inputs[i]!, width]);

/** The first program computes the second's outputs as well: they are handed out if the second is then asked for the same rows and angles. */
function pairOf(first: Program, second: Program, { run, destroy }: Graph): readonly [Runnable, Runnable] {
  const rotary = rotaryOf(second), { width } = second.inputs[0]!;
  const ahead = new WeakMap<Float32Array, { readonly angles: Angles; readonly outputs: readonly Float32Array[] }>();
  const none = new Float32Array(0);
  return [
    {
      async run(inputs, m, angles) {
        if (m === 0) return [none];
        const fits = rotary !== undefined && angles?.rotary === rotary && angles.cos.length === (m * rotary) / 2;
        const turn = fits ? angles : rotary === undefined ? undefined : noTurn(m, rotary);
        const [y, ...outputs] = await run([...feeds(first, inputs), ['rows', none, width]], m, turn);
        if (fits) ahead.set(y!, { angles, outputs });
        return [y!];
      },
      destroy,
    },
    {
      async run(inputs, m, angles) {
        if (m === 0) return second.outputs.map(() => none);
        const done = ahead.get(inputs[0]!);
        if (done !== undefined && done.angles === angles) return done.outputs;
        const turn = rotary === undefined ? undefined : expectAngles(angles, rotary, second);
        const [, ...outputs] = await run([...first.inputs.map(({ width: w }, i): Input => [`x${i}`, none, w]), ['rows', inputs[0]!, width]], m, turn);
        return outputs;
      },
      destroy,
    },
  ];
}

const noTurn = (m: number, rotary: number): Angles => ({ rotary, cos: new Float32Array((m * rotary) / 2), sin: new Float32Array((m * rotary) / 2) });

function expectAngles(angles: Angles | undefined, rotary: number, { name }: Program): Angles {
  if (angles?.rotary === rotary) return angles;
  throw new KvError(name, `expected angles for ${rotary} numbers of a head, got ${angles === undefined ? 'none' : angles.rotary}`);
}
