import { KvError } from '../tensor/errors.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { expectEquation } from './expect-declared.ts';
import type { SignalReaders, StepContext } from './piece-declaration.ts';
import { signalKey } from './signals.ts';
import type { AnySignal, Signal } from './signals.ts';
import type { State, StateSpec } from './state.ts';

/** What the equation of an input signal reads. */
export interface InputContext extends Omit<StepContext, 'active'> {
  /**
   * What the layer's projections read of the newest tokens: the residual stream after the norm before attention, f32 `[1, m,
   * D]`.
   */
  readonly input: Tensor;
}

/**
 * A number of every slot that is made once, when the slot's token is read, from the input of the layer: f32 `[H | G | 1,
 * n]`. The engine keeps it with the slot, so that inputs are not stored. It reads no other slot and no attention, so that a
 * prompt in blocks gives what the whole prompt gives.
 */
export interface InputSignal<As extends string = string> extends Signal<As, Tensor> {
  readonly ofInput: {
    /** Rows per layer: one per query head, one per KV head, or one. */
    readonly rows: Exclude<StateSpec['rows'], 'model'>;
    /** Files next to the model that the equation reads. */
    readonly needs: readonly AnySignal[];
    /** Returns the numbers of the newest tokens, `[rows, m]`. */
    run(ctx: InputContext & Readonly<Record<string, unknown>>): Tensor;
  };
}

/** How ids of input signals begin, and so those of the states that keep their numbers. */
const PREFIX = 'input.';

/**
 * Declares a signal of a layer's input.
 *
 * @param name the name under which pieces read it
 * @param declared its rows, and the signals of files next to the model that its equation reads
 * @param run the equation: from the inputs `[1, m, D]` of m tokens to their numbers `[rows, m]`, each from its own token
 * alone
 * @throws KvError for a need that is not a file next to the model
 */
export function inputSignal<const N extends string, const S extends readonly AnySignal[] = []>(
  name: N,
  { rows, needs }: { readonly rows: InputSignal['ofInput']['rows']; readonly needs?: S },
  run: (ctx: InputContext & SignalReaders<S>) => Tensor,
): InputSignal<N> {
  expectEquation(name, run);
  const other = needs?.find(({ cost, hidden, provide }) => cost !== 'artifact' || hidden || !provide);
  if (other)
    throw new KvError(
      name,
      `reads ${signalKey(other)}, expected files next to the model alone: nothing else is known when a token is read`,
    );
  return {
    id: `${PREFIX}${name}`,
    as: name,
    cost: needs?.length ? 'artifact' : 'free',
    ofInput: { rows, needs: needs ?? [], run: run as InputSignal['ofInput']['run'] },
  };
}

/** Whether a signal is made of a layer's input. */
export const isInputSignal = (s: Signal<string, any>): s is InputSignal => 'ofInput' in s;

/** Returns the state of slots in which an engine keeps the numbers of an input signal. */
export const slotState = <N extends string>(signal: InputSignal<N>): State<N> => ({
  id: signalKey(signal),
  as: signal.as,
  cost: 'free',
  state: { kind: 'slot', rows: signal.ofInput.rows },
});

/** Whether the state of this id keeps the numbers of an input signal. */
export const isInputState = (id: string): boolean => id.startsWith(PREFIX);
