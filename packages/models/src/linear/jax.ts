import { KvError } from '@kv/core';
import { dense } from '../checkpoint/matrix.ts';
import type { LinearFactory } from './linear.ts';

/**
 * Products on the WebAssembly backend of `@jax-js/jax`, an optional peer. A call costs about 0.25 ms whatever its size,
 * and the library compiles and keeps room for
 * every number of rows that it meets.
 *
 * Weights are held once, in the library's memory, until `destroy`. @throws KvError where the package is not installed
 */
export async function jaxLinear(): Promise<LinearFactory> {
  const { init, numpy } = await import('@jax-js/jax').catch((cause: NodeJS.ErrnoException) => {
    throw new KvError('@jax-js/jax', `expected the package to be installed, got ${cause.code ?? cause.message}`);
  });
  await init('wasm');
  const array = (data: Float32Array, shape: number[]): ReturnType<typeof numpy.array> =>
    numpy.array(data as Float32Array<ArrayBuffer>, { shape, device: 'wasm' });
  return (weight) => {
    const { inputs, outputs } = weight,
      held = array(dense(weight), [outputs, inputs]);
    return {
      inputs,
      outputs,
      // an operation consumes its operands: `ref` keeps the weight
      apply: (x, rows) =>
        rows === 0
          ? new Float32Array(0)
          : (numpy.matmul(array(x, [rows, inputs]), held.ref.transpose()).dataSync() as Float32Array),
      destroy: () => held.dispose(),
    };
  };
}
