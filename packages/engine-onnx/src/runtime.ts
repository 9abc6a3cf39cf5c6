/** The part of `onnxruntime-node` that is used: pass the module itself. */
export interface Onnx {
  readonly InferenceSession: {
    create(model: Uint8Array, options: SessionOptions): Promise<OnnxSession>;
  };
  readonly Tensor: new (type: 'float32', data: Float32Array, shape: readonly number[]) => OnnxTensor;
}

/** A tensor. An input's `data` is read in place. */
export interface OnnxTensor {
  readonly data: unknown;
}

/** The part of an ONNX Runtime session that this package uses. */
export interface OnnxSession {
  /** @param outputs names of the outputs to compute. @defaultValue all of them */
  run(
    feeds: Readonly<Record<string, OnnxTensor>>,
    outputs?: readonly string[],
  ): Promise<Readonly<Record<string, OnnxTensor>>>;
  release(): Promise<void>;
}

interface SessionOptions {
  readonly intraOpNumThreads: number;
  readonly logSeverityLevel: 3;
  readonly enableCpuMemArena: false;
  readonly extra: Readonly<Record<string, unknown>>;
}

/**
 * Returns the options of sessions. Every session has its own threads, which would spin after a run and hold the cores
 * that the next session needs: here they stop with the run (one decoded token of 30 layers on a busy machine: 11 ms,
 * and 280 ms without this). A session also keeps no memory between runs: otherwise every layer would hold its largest
 * block permanently (1.7 GB instead of 0.7 after 1,024 tokens of a model of 135M, no faster).
 */
export function sessionOptions(threads: number): SessionOptions {
  return {
    intraOpNumThreads: threads,
    logSeverityLevel: 3,
    enableCpuMemArena: false,
    extra: { session: { force_spinning_stop: '1' } },
  };
}
