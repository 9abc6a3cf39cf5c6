import type { LinearFactory } from './linear.ts';

/** Products that go to `few` below `from` rows and to `many` from there on: an engine with a cost per call, for blocks only. Both hold the weights. */
export function byRows(few: LinearFactory, many: LinearFactory, from = 32): LinearFactory {
  return (weight) => {
    const [small, large] = [few(weight), many(weight)];
    return {
      inputs: weight.inputs,
      outputs: weight.outputs,
      apply: (x, rows) => (rows < from ? small : large).apply(x, rows),
      destroy() {
        small.destroy();
        large.destroy();
      },
    };
  };
}
