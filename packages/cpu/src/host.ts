import { advanceOn, retainOn } from '@kv/core';
import { recordApply, recordAttend } from '@kv/core/engine';
import type {
  AnyPiece,
  ApplyResultOf,
  AttendResult,
  Cache,
  Inputs,
  Piece,
  Policy,
  RetainResult,
  RetainState,
  RetainOptions,
} from '@kv/core';
import { cpu, readCpu } from './cpu.ts';

/**
 * Runs a piece on plain numbers of one layer, without an engine.
 * @param inputs numbers by the names of signals, such as `{ attention: [[0.1, 0.9]], budget: 1 }`
 * @throws KvError naming the signal that is missing, inputs whose shapes do not match, the score that is not finite, or
 * more forced slots than budget.
 */
export function apply<const P extends AnyPiece>(piece: P, inputs: Inputs): ApplyResultOf<P> {
  const { tensors, result } = recordApply(piece, inputs, cpu.ops);
  return result(tensors.map(readCpu));
}

/**
 * Returns what a piece's `onAttend` hook adds to the attention of some queries, on plain numbers of one layer.
 * @param inputs `queries` `[H, m, d]`, their `positions` `[1, m]`, and states by name, as `apply` returns them
 * @throws KvError for a piece without such a hook, and for inputs that are missing or do not fit
 */
export function attend(piece: Piece, inputs: Inputs): AttendResult {
  const [masses, values] = recordAttend(piece, inputs, cpu.ops).map((tensor) => {
    const { data, shape } = readCpu(tensor);
    return { data, shape };
  });
  return { masses, values };
}

/** Runs one event over every layer of a cache that the caller holds: `retainOn` of @kv/core on the CPU. */
export const retain = (policy: Policy, cache: Cache, options: RetainOptions): Promise<RetainResult> =>
  retainOn(cpu, policy, cache, options);

/** Runs the step hooks after a decoded token: `advanceOn` of @kv/core on the CPU. */
export const advance = (policy: Policy, cache: Cache): Promise<RetainState> => advanceOn(cpu, policy, cache);
