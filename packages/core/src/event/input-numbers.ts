import type { LayerContext } from '../piece/atoms.ts';
import type { InputSignal } from '../piece/input-signal.ts';
import { sameSignal } from '../piece/signals.ts';
import type { AnySignal } from '../piece/signals.ts';
import type { Ops } from '../tensor/maths.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { expectTensor, runGuarded } from './boundary.ts';

/** The inputs of a layer for m tokens, f32 `[1, m, D]`, and the files that equations read. */
export interface InputPlace {
  readonly at: LayerContext;
  readonly ops: Ops;
  readonly input: Tensor;
  /** Returns the value of a file for this layer. */
  read(signal: AnySignal): unknown;
}

/** Returns the numbers `[rows, m]` of the newest tokens. @throws KvError naming signal and layer */
export function runInputSignal(signal: InputSignal, { at, ops, input, read }: InputPlace): Tensor {
  const { rows, needs, run } = signal.ofInput,
    { layer, queryHeads, kvHeads } = at,
    from = { name: signal.as, layer, ops };
  return runGuarded(signal.as, layer, () => {
    const made: unknown = run({ ops, at, input, ...Object.fromEntries(needs.map((s) => [s.as, read(s)])) });
    expectTensor(from, 'the numbers of tokens', made, {
      rows: [{ query: queryHeads, kv: kvHeads, layer: 1 }[rows]],
      columns: input.shape[1],
      dtype: 'f32',
    });
    return made as Tensor;
  });
}

/** Returns the files that input signals read, each once. */
export const filesOf = (signals: readonly InputSignal[]): readonly AnySignal[] =>
  signals
    .flatMap(({ ofInput }) => ofInput.needs)
    .filter((s, i, all) => all.findIndex((other) => sameSignal(s, other)) === i);
