import type { Backend } from '../tensor/backend.ts';
import { KvError } from '../tensor/errors.ts';
import { primitivesOf, withMaths } from '../tensor/maths.ts';

/**
 * Returns the backend with a limit: a kernel that declares more than `most` operations is refused before it runs. A
 * kernel cannot be interrupted, so on the host everything else may have to wait for the largest.
 *
 * @throws KvError, from the operation, in one sentence
 */
export function limitOperations(backend: Backend, most: number): Backend {
  const { ops } = backend,
    inner = primitivesOf(ops);
  return {
    name: backend.name,
    ...(backend.lasting && { lasting: true }),
    read: (tensors) => backend.read(tensors),
    ops: withMaths({
      ...inner,
      kernel(kernel, inputs, params = {}) {
        const count = kernel.operations?.(inputs, params) ?? 0;
        if (count > most)
          throw new KvError(
            'ops.kernel',
            `expected at most ${most} operations at once, got ${Math.ceil(count)} for '${kernel.id}': take fewer tokens, or a policy whose work grows with them and not with their square`,
          );
        return inner.kernel(kernel, inputs, params);
      },
    }),
  };
}
