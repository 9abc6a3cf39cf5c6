import { attentionWindow, count, weigher } from '@kv/core';

/**
 * Finch: the attention that a slot receives from the queries of the question, each times the number of other slots that
 * it sees, so that a late query, whose weights are spread over more, counts as much as an early one.
 *
 * @remarks Corallo and Papotti 2024, TACL, doi:10.1162/tacl_a_00716, as kvpress' FinchPress has it: mean over the
 * queries, no pooling. Weights on query rows `[H, n]`; the question's own slots are forced. O(w H n d). The authors turn
 * what is kept to consecutive positions: `rerotate()` behind the selector.
 */
export const finch = weigher(
  'finch',
  {
    source: 'Corallo and Papotti 2024, TACL, doi:10.1162/tacl_a_00716',
    says: "The attention of the question's queries, each counting alike.",
    options: { question: count(64, 'tokens', 'Last tokens of the prompt that ask.') },
    needs: ({ question }) => [attentionWindow(question, 'normalized')],
    floor: ({ question }, slots) => Math.min(slots, question),
  },
  ({ ops, attention }, { question }) => ({ scores: attention, forced: ops.lastSlots(attention, question) }),
);
