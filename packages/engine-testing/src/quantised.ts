import { dense, tensorTypes, type Matrix } from '@kv/checkpoints';
import type { RunningHostModel, Runtime } from '@kv/engine';
import type { Weights } from '@kv/checkpoints';

/** Blocks of Q8_0 hold 32 numbers: a scale of f16, here a power of two, and 32 bytes. */
const { numbers: BLOCK, bytes: SIZE } = tensorTypes.Q8_0;

/** Returns a matrix in Q8_0, or unchanged if its rows are not whole blocks. */
function quantised(matrix: Matrix): Matrix {
  const { inputs, outputs } = matrix;
  if (inputs % BLOCK !== 0) return matrix;
  const values = dense(matrix),
    bytes = new Uint8Array((values.length / BLOCK) * SIZE),
    view = new DataView(bytes.buffer);
  for (let b = 0; b < values.length / BLOCK; b++) {
    const block = values.subarray(b * BLOCK, (b + 1) * BLOCK),
      largest = block.reduce((most, x) => Math.max(most, Math.abs(x)), 2 ** -7),
      exponent = Math.ceil(Math.log2(largest / 127));
    view.setUint16(b * SIZE, (exponent + 15) << 10, true);
    for (const [i, x] of block.entries()) view.setInt8(b * SIZE + 2 + i, Math.round(x / 2 ** exponent));
  }
  return { inputs, outputs, parts: [{ type: 'Q8_0', rows: outputs, bytes }] };
}

/** Returns a runtime whose products are all quantised; their types are added to `types`. */
export const overQuantised = (runtime: Runtime<RunningHostModel>, types: string[] = []): Runtime<RunningHostModel> => ({
  name: runtime.name,
  start: ({ weights, ...source }) => {
    const note = (matrix: Matrix): Matrix => {
      types.push(...matrix.parts.map(({ type }) => type));
      return matrix;
    };
    const all: Weights = {
      ...weights,
      byRows: undefined,
      embed: async () => quantised(await weights.embed()),
      head: async () => quantised(await weights.head()),
      async project(layer) {
        const { qkv, ...rest } = await weights.project(layer);
        return { ...rest, qkv: note(quantised(qkv)) };
      },
      async convolution(layer) {
        const { input, ...rest } = await weights.convolution!(layer); // called only where it is
        return { ...rest, input: note(quantised(input)) };
      },
      async delta(layer) {
        const { input, ...rest } = await weights.delta!(layer); // called only where it is
        return { ...rest, input: note(quantised(input)) };
      },
      async finish(layer) {
        const { output, gateUp, down, experts, ...rest } = await weights.finish(layer);
        return {
          ...rest,
          output: note(quantised(output)),
          ...(gateUp && { gateUp: note(quantised(gateUp)) }),
          ...(down && { down: note(quantised(down)) }),
          ...(experts && {
            experts: { ...experts, gateUp: note(quantised(experts.gateUp)), down: note(quantised(experts.down)) },
          }),
        };
      },
    };
    return runtime.start({ ...source, weights: all });
  },
});
