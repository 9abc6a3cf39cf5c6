import { flag, oneOf, positions, text, tokens, unit } from '@kv/core';
import { turnsOf } from '@kv/core/shared';
import type { LayerContext, Option, Tokens } from '@kv/core';

/** Most positions at which spans begin. */
const MOST = 256;
/** Reads ascending positions: a text such as '12 40', or numbers. */
const readPlaces = (x: unknown): readonly number[] | undefined => {
  const places: readonly unknown[] = Array.isArray(x)
      ? x
      : String(x)
          .split(/[\s,]+/)
          .filter((part) => part !== '')
          .map(Number),
    fits = places.every((p, i) => Number.isSafeInteger(p) && Number(p) > Number(places[i - 1] ?? 0));
  return fits && places.length <= MOST ? places.map(Number) : undefined;
};
const at: Option<string | readonly number[]> = text(
  '',
  `up to ${MOST} ascending positions above 0, such as '12 40'`,
  'Where spans begin, apart from the first; left out, at the turns of the chat template.',
  (x) => readPlaces(x)?.join(' '),
);

/** Returns the first token after each occurrence of the delimiter. */
function startsAfter({ text: told, offsets }: Tokens, delimiter: string, length: number): readonly number[] {
  const found: number[] = [];
  let token = 0;
  for (let from = told.indexOf(delimiter); from >= 0; ) {
    const end = from + delimiter.length;
    while (token < length && offsets[token][0] < end) token++;
    found.push(token);
    from = told.indexOf(delimiter, end);
  }
  return found;
}

/** Option: how scores of slots become one of their unit. */
export const score = oneOf(['mean', 'max', 'sum'], 'mean', "What of its slots' scores is a unit's.");

interface Cuts {
  readonly at: string | readonly number[];
  readonly delimiter: string;
}
/** Returns the span of every position; where the prompt ends, a span ends too. */
function spanOf(read: Tokens | undefined, { length, promptLength }: LayerContext, o: Cuts): Uint32Array {
  const told = Math.min(length, read?.offsets.length ?? 0),
    starts =
      o.delimiter !== ''
        ? startsAfter(read!, o.delimiter, told)
        : o.at.length > 0
          ? readPlaces(o.at)!
          : turnsOf(read!, told).map(({ start }) => start),
    begins = new Uint8Array(length);
  for (const p of [...starts, promptLength]) if (p > 0 && p < length) begins[p] = 1;
  let span = 0;
  return Uint32Array.from(begins, (begin) => (span += begin));
}

/**
 * Spans of a text as units: the turns of a conversation, parts between a delimiter, such as examples, or parts that
 * begin at given positions. With `quota()` each keeps its share, with `wholeUnits()` they stay or go as wholes.
 *
 * @remarks Fair eviction of arXiv:2510.00231v2 (instructions, system and user turns lose alike), and the shots of
 * ShotKV, arXiv:2502.01941. A turn begins at a special token that the name of a role follows, so that no ordinary text
 * can begin one. Text after the prompt is a span of its own. A delimiter belongs to the span that it ends. Scores
 * `[rows, n]` to unit scores `[1 | rows, spans]`. O(rows n).
 */
export const spans = unit(
  'spans',
  {
    source: 'arXiv:2510.00231v2; arXiv:2502.01941',
    says: 'Turns of a conversation, examples between a delimiter, or parts that begin at given positions.',
    options: {
      at,
      delimiter: text('', 'a text of the prompt', 'A span ends with it, as an example does with a blank line.'),
      score,
      shared: flag(false, 'One score a span for the whole layer, so that its heads keep the same spans.'),
    },
    check: (o) => o.at.length > 0 && o.delimiter !== '' && 'expected `at` or `delimiter`, got both',
    needs: ({ at: places, delimiter }) => (places.length > 0 && delimiter === '' ? [positions] : [positions, tokens]),
  },
  (ctx, o) => {
    const { ops, at: where, scores, positions: p, tokens: read } = ctx;
    const byPosition = spanOf(read, where, o);
    const count = (byPosition.at(-1) ?? 0) + 1;
    const of = ops.take(ops.from({ data: byPosition, shape: [1, where.length] }, 'u32'), p);
    const each = ops.groupSlots(o.score, scores, of, count); // [rows, spans]
    return {
      units: { of, count, byPosition },
      scores: o.shared ? ops.reduce('sum', ops.reduceRows('mean', each, where.kvHeads), 'rows') : each,
    };
  },
);
