import { count, KvError, oneOf } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import type { HostEngine } from '@kv/engine';
import { onnxAttend } from './attention.ts';
import { layerGraph } from './layer-graph.ts';
import { preparedLayer } from './layer.ts';
import type { WeightForm } from './product.ts';
import { programGraph, rotaryOf, scalesRows } from './program-graph.ts';
import { sessionOptions, type Onnx, type OnnxTensor } from './runtime.ts';
import { angleTensors, expectAngles, sessionOf, type Session } from './session.ts';

export const ONNX_ENGINE = {
  threads: count(1, 'threads', 'Threads of every session.'),
  weights: oneOf<WeightForm>(
    ['f32', 'stored'],
    'f32',
    "'f32' computes every product in f32. 'stored' keeps 4- and 8-bit weights as they are and rounds the activations that meet them to 8 bits in blocks of 16 or 32: a product is off by less than 1 % of its largest number.",
  ),
};
/** Options of `onnxEngine`. */
export interface OnnxEngineOptions extends OptionValues<typeof ONNX_ENGINE> {}

/**
 * Returns an engine that runs programs on ONNX Runtime, each as one graph in memory that holds its weights.
 * @param onnx the module `onnxruntime-node` or `onnxruntime-web`
 */
export function onnxEngine(onnx: Onnx, options: OnnxEngineOptions = {}): HostEngine {
  const { threads, weights } = settleOwn('onnxEngine', ONNX_ENGINE, options);
  const attend = onnxAttend(onnx, { threads }),
    alive = new Set<Session>();
  const open = async (name: string, model: Uint8Array): Promise<Session> => {
    const session = sessionOf(name, await onnx.InferenceSession.create(model, sessionOptions(threads)));
    alive.add(session);
    return {
      run: session.run,
      destroy() {
        session.destroy();
        // the sessions of attention serve every model of the engine
        if (alive.delete(session) && alive.size === 0) attend.release();
      },
    };
  };
  const masks = new Map<string, OnnxTensor>();
  return {
    name: `onnxruntime-node, ${weights === 'f32' ? 'f32' : 'stored weights'}, ${threads} thread${threads === 1 ? '' : 's'}`,
    attend,
    attendsWindows: true,
    expect({ architecture, experts }) {
      if (experts)
        throw new KvError(
          'onnxEngine',
          `expected a model without routed experts, got ${architecture} with ${experts.count} in a layer: run it on another engine, with 'kv run' the CPU's or --gpu`,
        );
    },
    async prepare(program) {
      const { run, destroy } = await open(program.name, programGraph(program, weights)),
        rotary = rotaryOf(program),
        scaled = scalesRows(program),
        names = program.outputs.map((_, i) => `y${i}`);
      const tensor = (data: Float32Array, m: number): OnnxTensor =>
        new onnx.Tensor('float32', data, [m, data.length / m]);
      return {
        run: async (inputs, m, angles) => {
          if (m === 0) return program.outputs.map(() => new Float32Array(0));
          const feeds = Object.fromEntries(program.inputs.map((_, i) => [`x${i}`, tensor(inputs[i], m)]));
          if (rotary === undefined) return run(feeds, names);
          const given = expectAngles(angles, rotary, program.name);
          return run({ ...feeds, ...angleTensors(onnx, given, m, scaled) }, names);
        },
        destroy,
      };
    },
    prepareLayer: async (heads, finish, next) =>
      preparedLayer(
        onnx,
        heads,
        finish,
        next,
        await open(finish.name, layerGraph(heads, finish, next, weights)),
        masks,
      ),
  };
}
