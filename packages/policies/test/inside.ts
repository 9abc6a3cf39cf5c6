import { KvError, lookUp } from '@kv/core';
import type { AnyFactory, Piece } from '@kv/core';
import { catalogue, parsePolicy } from '../src/index.ts';

const scorers = ['knorm', 'snapkv'].map((name) => lookUp(catalogue, name)() as Piece);

/** Returns what a factory makes by default, around a scorer of keys, or around one of attention where it refuses that. */
export function madeBy(factory: AnyFactory, [scorer, ...others]: readonly Piece[] = scorers): unknown {
  const inside: Readonly<Record<AnyFactory['description']['takes'], readonly unknown[]>> = {
    nothing: [],
    scorer: [scorer],
    scorers: [scorer, scorer],
    terms: [[0.5, scorer]],
    policy: [parsePolicy('knorm | topK')],
  };
  try {
    return factory(...inside[factory.description.takes]);
  } catch (cause) {
    if (KvError.is(cause) && others.length > 0) return madeBy(factory, others);
    throw cause;
  }
}
