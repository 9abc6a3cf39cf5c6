import { attentionWindow, checkNumber, isPositiveInteger } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

/**
 * Finch: the attention that a slot receives from the queries of the question, each times the number of other slots that
 * it sees, so that a late query, whose weights are spread over more, counts as much as an early one.
 *
 * @remarks Corallo and Papotti 2024, TACL, doi:10.1162/tacl_a_00716, as kvpress' FinchPress has it: mean over the
 * queries, no pooling. Weights on query rows `[H, n]`; the question's own slots are forced. O(w H n d). The authors
 * turn
 * what is kept to consecutive positions: `rerotate()` behind the selector.
 * @throws KvError if `question` is not a positive whole number.
 */
export function finch({
  question = 64,
}: {
  /** Last tokens of the prompt that ask. @defaultValue 64 */ readonly question?: number;
} = {}): Weigher<'finch'> {
  checkNumber('finch', 'question', question, 'a positive whole number of tokens', isPositiveInteger);
  return weigher(
    { name: 'finch', options: { question }, floor: (n) => Math.min(n, question) },
    [attentionWindow(question, 'normalized')],
    ({ ops, attention }) => ({ scores: attention, forced: ops.lastSlots(attention, question) }),
  );
}
