import { matmulModel } from './onnx-model.ts';
import type { LinearFactory } from './linear.ts';

/** What is used of `onnxruntime-node` or `onnxruntime-web`: pass the module itself. */
export interface Onnx {
  readonly InferenceSession: {
    create(model: Uint8Array, options: { readonly intraOpNumThreads: number }): Promise<OnnxSession>;
  };
  readonly Tensor: new (type: 'float32', data: Float32Array, shape: number[]) => unknown;
}

export interface OnnxSession {
  run(feeds: Readonly<Record<string, unknown>>): Promise<Readonly<Record<string, { readonly data: unknown }>>>;
  release(): Promise<void>;
}

export interface OnnxOptions {
  /** @defaultValue 1 */
  readonly threads?: number;
}

/** Products on ONNX Runtime, one graph of one `MatMul` a weight. */
export function onnxLinear(onnx: Onnx, { threads = 1 }: OnnxOptions = {}): LinearFactory {
  return (weight, outputs, inputs) => {
    let session: Promise<OnnxSession> | undefined = onnx.InferenceSession.create(matmulModel(weight, outputs, inputs), { intraOpNumThreads: threads });
    return {
      inputs,
      outputs,
      async apply(x, rows) {
        const result = await (await session!).run({ x: new onnx.Tensor('float32', x, [rows, inputs]) });
        return result.y!.data as Float32Array;
      },
      destroy() {
        void session?.then((s) => s.release());
        session = undefined;
      },
    };
  };
}
