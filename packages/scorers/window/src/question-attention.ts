import { attentionWindow, count, keys, KvError, positions, queries, text, tokens, weightScorer } from '@kv/core';
import type { LayerContext, Tokens } from '@kv/core';
import { windowSignal } from '@kv/core/shared';

const normalized = (question: number) => attentionWindow(question, 'normalized');

/**
 * Finch: the attention that a slot receives from the queries of the question, each multiplied by the number of other
 * slots that it sees, so that a late query, whose weights are spread over more slots, counts as much as an early one.
 *
 * @remarks Corallo and Papotti 2024, TACL, doi:10.1162/tacl_a_00716, as kvpress' FinchPress: mean over the queries, no
 * pooling. Weights on query rows `[H, n]`; the question's own slots are forced. O(w H n d). The authors rotate what is
 * kept to consecutive positions: compose with `rerotate()` after the selector. With a delimiter the question is the
 * text after its last occurrence in the prompt, and scores are the softmax of scaled q·k, with learned sinks, without soft caps
 * or sliding windows; the delimiter itself is context. An event while tokens are generated asks with the newest tokens,
 * as many as the question has, and keeps these.
 * @throws KvError where the prompt has no delimiter, no token after it, or more than `question` tokens after it.
 */
export const questionAttention = weightScorer(
  'questionAttention',
  {
    source: 'Corallo and Papotti 2024, TACL, doi:10.1162/tacl_a_00716',
    says: "The attention of the question's queries, each counting alike.",
    options: {
      question: count(64, 'tokens', 'Last tokens of the prompt that ask; of a question after a delimiter, the most.'),
      delimiter: text(
        '',
        'a text of the prompt',
        'The question is what follows it; without one, it has `question` tokens.',
      ),
    },
    needs: ({ question, delimiter }) =>
      delimiter === '' ? [normalized(question)] : [queries(question), keys, positions, tokens],
    ends: ({ question, delimiter }) => ({ last: delimiter === '' ? question : 0 }),
    open: ({ delimiter }) => delimiter !== '',
  },
  (ctx, { question, delimiter }) => {
    const { ops, at, attention, queries: q, keys: k, positions: p, tokens: read } = ctx;
    if (attention) return { scores: attention, forced: ops.lastSlots(attention, question) };
    // with a delimiter, `needs` names these signals
    const w = tokensAfter(read!, at, delimiter, question);
    const scores = windowSignal(normalized(w), { ops, at, queries: q!, keys: k!, positions: p! })!;
    return { scores, forced: ops.lastSlots(scores, w) };
  },
);

/** Returns the number of the prompt's tokens that end after the last occurrence of the delimiter. */
function tokensAfter(
  { text: all, offsets }: Tokens,
  { promptLength }: LayerContext,
  delimiter: string,
  most: number,
): number {
  const prompt = offsets.slice(0, promptLength),
    end = prompt.at(-1)?.[1] ?? 0,
    from = all.slice(0, end).lastIndexOf(delimiter),
    w = prompt.filter(([, to]) => to > from + delimiter.length).length;
  const refuse = (got: string): KvError =>
    new KvError(
      'questionAttention',
      `expected a question of 1 to ${most} tokens after '${delimiter}' in the prompt, got ${got}`,
    );
  if (from < 0) throw refuse(`no such text in the ${prompt.length} tokens that were read`);
  if (w < 1 || w > most) throw refuse(`${w} tokens`);
  return w;
}
