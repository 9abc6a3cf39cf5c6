import { advanceOn, retainOn } from '@kv/core';
import { recordApply } from '@kv/core/engine';
import type {
  AnyPiece,
  ApplyResultOf,
  Cache,
  Inputs,
  Policy,
  RetainResult,
  RetainState,
  RetainOptions,
} from '@kv/core';
import { cpu, readCpu } from './cpu.ts';

/**
 * Runs a piece on plain numbers of one layer, without an engine.
 *
 * @throws KvError naming the signal that is missing, inputs whose shapes do not belong together, the score that is not
 * finite, or more forced slots than budget.
 */
export function apply<const P extends AnyPiece>(piece: P, inputs: Inputs): ApplyResultOf<P> {
  const { tensors, result } = recordApply(piece, inputs, cpu.ops);
  return result(tensors.map(readCpu));
}

/** `retainOn` of @kv/core on the CPU: one event over every layer of a cache that someone else holds. */
export const retain = (policy: Policy, cache: Cache, options: RetainOptions): Promise<RetainResult> =>
  retainOn(cpu, policy, cache, options);

/** `advanceOn` of @kv/core on the CPU: what pieces do after every decoded token. */
export const advance = (policy: Policy, cache: Cache): Promise<RetainState> => advanceOn(cpu, policy, cache);
