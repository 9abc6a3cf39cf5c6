import { checkNumber, isPositiveInteger, positions, tokens } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { AnySignal, HostArray, Tokens, Weigher } from '@kv/core';
import type { Options } from '@kv/core/old';
import { extra, given } from './detector.ts';
import { aging, freshness } from './freshness.ts';
import { vouchers } from './vouchers.ts';

/** What is left of a voucher one token further from its anchor. */
const FALLOFF = 0.8;
interface Terms {
  readonly reach: number;
  readonly strength: number;
  readonly decay: number;
}

export function checkedVouching(piece: string, { reach, strength, decay }: Terms): void {
  checkNumber(piece, 'reach', reach, 'a positive whole number of tokens', isPositiveInteger);
  checkNumber(piece, 'strength', strength, 'a number of at least 0', (b) => Number.isFinite(b) && b >= 0);
  checkNumber(piece, 'decay', decay, 'a number from 0 to 1', (d) => d >= 0 && d <= 1);
}

/**
 * A weigher of vouchers: `strength` times what the row by position says of every anchor, spread over the tokens after
 * it, less with every generated token.
 */
export function vouching<const N extends string>(
  {
    name,
    options,
    by,
  }: {
    readonly name: N;
    readonly options: Options /** What the row comes from. */;
    readonly by: { readonly signal?: AnySignal };
  },
  row: (tokens: Tokens, length: number, given: unknown) => HostArray,
  { reach, strength, decay }: Terms,
): Weigher<N> {
  const needs = [tokens, positions, freshness(decay)] as const;
  const score = weigher({ name, options }, [...needs, ...extra(by)] as unknown as typeof needs, (ctx) => {
    const { ops, at, tokens: t, positions: p, fresh } = ctx;
    return ops.mul(
      ops.kernel(
        vouchers,
        { budgets: ops.from(row(t, at.length, given(ctx, by))), fresh, positions: p },
        { reach, falloff: FALLOFF },
      ),
      strength,
    );
  });
  return { ...score, atoms: [...score.atoms, ...aging(decay).atoms] };
}
