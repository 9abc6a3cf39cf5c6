import { positions, scoreAllocator, share } from '@kv/core';

/**
 * Budgets of their own for the prompt and for what is generated: the prompt's slots get a share of each budget, rounded
 * down, and generated ones what that leaves. Until something is generated the share is the budget, of one slot at least;
 * then the prompt's kept slots stay, so that generated ones compete with each other alone.
 *
 * @remarks ShotKV's two phases, arXiv:2502.01941 (KVFundaBench, ICML 2026). Forced slots come first: those of the prompt
 * may exceed its share, and generated ones come out of the prompt's. Where the prompt fitted the whole budget, its best
 * slots by score are chosen at the first event after it, and the others of it are banned. Forces and bans on selection
 * rows `[G, n]`. O(n log n).
 */
export const promptPart = scoreAllocator(
  'promptPart',
  {
    source: 'ShotKV, arXiv:2502.01941',
    says: 'Budgets of their own for the prompt and for what is generated.',
    options: { share: share(0.5, "The prompt's share of each budget, rounded down.") },
    needs: [positions],
    beforeSelector: true,
  },
  ({ ops, at, scores, budgets, forced, banned, positions: p }, { share: part }) => {
    const own = ops.map('floor', ops.mul(budgets, part)); // [G, 1]
    if (at.length <= at.promptLength)
      return { budgets: ops.max(own, ops.min(budgets, forced === 0 ? 1 : ops.max(1, ops.count(forced)))) };
    const prompt = ops.broadcast(ops.less(p, at.promptLength), budgets.shape[0]), // [G, n]
      later = ops.not(prompt),
      held = forced === 0 ? own : ops.min(own, ops.sub(budgets, ops.count(ops.mul(forced, later)))),
      stays = ops.top(ops.masked(scores, { forced, banned }), ops.max(0, held), { banned: ops.union(later, banned) });
    return { forced: stays, banned: ops.mul(prompt, ops.not(ops.union(stays, forced) as typeof stays)) };
  },
);
