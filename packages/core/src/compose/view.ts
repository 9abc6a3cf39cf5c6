import type { LayerContext, Step, WrapSelectHook } from '../piece/atoms.ts';
import { expectBudget } from '../event/allowance.ts';
import { rowsOf } from '../event/boundary.ts';
import { factory } from '../piece/declare.ts';
import type { Factory } from '../piece/declare.ts';
import { KvError } from '../tensor/errors.ts';
import { count, oneOf, whole } from '../piece/option.ts';
import { PHASES, PROTOCOL } from '../piece/piece.ts';
import type { Piece, ViewPiece } from '../piece/piece.ts';
import { compile, runEvent, union } from '../event/run.ts';
import { positions, signalKey } from '../piece/signals.ts';
import type { ViewLoop } from '../piece/view-loop.ts';

const options = {
  budget: count(1024, 'slots', 'Slots visible per row.'),
  rows: oneOf(['query', 'kv'], 'query', 'Whose rows choose.'),
  dense: whole(0, 'layers', 'First layers in which nothing is hidden.'),
};

/**
 * Turns a policy that evicts into one that hides: it selects again at every decoded token, and evicts nothing.
 * @throws KvError for a policy that a view cannot run, or that forces more slots than the budget
 */
export const view: Factory<typeof options, ViewPiece<'view'>, [policy: Piece<'start', 'kept'>]> = factory(
  'view',
  { source: '@kv/core', says: 'Hides what a policy would evict, at every decoded token.', options },
  { kind: 'hook', takes: 'policy', from: PHASES, to: 'same' },
  ({ budget, rows, dense }, label, policy) => {
    const inner = compile(policy);
    if (!inner.evicts)
      throw new KvError('view', `'${inner.label}' leaves no kept slots, expected a policy that ends in a selector`);
    if (inner.reach === 'model')
      throw new KvError('view', `'${inner.label}' reaches over the whole model, expected a policy of one layer`);
    const passing = inner.needs.find((s) => s.provide !== undefined);
    if (passing)
      throw new KvError(
        'view',
        `'${inner.label}' needs ${signalKey(passing)}, a pass of its own, expected a policy that can select at every decoded token`,
      );
    if (inner.levels)
      throw new KvError(
        'view',
        `'${inner.label}' demotes slots, expected a policy without demotions: a view stores nothing`,
      );
    const [hook] = [...inner.hooks('compact'), ...inner.hooks('evict'), ...inner.hooks('attend')];
    if (hook)
      throw new KvError(
        'view',
        `'${inner.label}' changes or folds slots when it evicts (${hook.label}), expected a policy that only chooses: a view evicts nothing`,
      );
    const [other] = [...inner.hooks('view'), ...inner.hooks('freeze'), ...inner.hooks('cadence')];
    if (other)
      throw new KvError(
        'view',
        `'${other.label}' does not choose what a view shows, expected it after the view, got it inside, in '${inner.label}'`,
      );
    expectBudget(inner, budget, { at: 'view' });
    const [wrap] = inner.hooks('wrapSelect');
    const needs = union([positions], inner.needs, wrap?.needs ?? []);
    const loops = rows === 'query' ? loopsOf(inner.steps, wrap) : undefined,
      // by law, a selector keeps all slots where they fit: nothing is to be done then, if no piece counts steps
      stateless = loops?.every(({ states = [] }) => states.length === 0) ?? false,
      acts = ({ layer, slots }: LayerContext): boolean => layer >= dense && !(stateless && slots <= budget);
    const placed = (at: LayerContext): LayerContext => ({
      ...at,
      selectRows: rows === 'query' ? at.queryHeads : at.kvHeads,
      budget,
    });
    return {
      protocol: PROTOCOL,
      from: PHASES,
      to: 'same',
      name: 'view',
      label,
      atoms: [
        {
          at: 'view',
          name: 'view',
          label,
          during: 'decode',
          needs,
          ...(loops && { chooses: { loops, budget, acts } }),
          run(cell) {
            if (!acts(cell.at)) return {};
            const at = placed(cell.at);
            const budgets = new Array<number>(at.selectRows).fill(Math.min(budget, at.slots));
            const layer = { at, budgets, read: (s: Parameters<typeof cell.read>[0]) => cell.read(s) };
            const [{ kept, state, scores, forced, active, checks }] = runEvent(inner, [layer], cell.ops, {
              wrap,
              wrappedRows: rowsOf,
            });
            if (!kept) throw new KvError('view', `layer ${at.layer}: '${inner.label}' chose no slots`);
            return {
              // scores of query heads are there already, where positions would be copied
              mask: cell.ops.mark(kept, rows === 'query' && scores ? scores : cell.read(positions)),
              state,
              checks,
              ...(scores && { chosen: { scores, forced, active } }),
            };
          },
        },
        ...policy.atoms.filter((a) => a.at === 'step'),
      ],
    };
  },
);

/** Returns the loops of a view's pieces, if all of them have one and its selector's stands last. */
function loopsOf(steps: readonly Step[], wrap: WrapSelectHook | undefined): readonly ViewLoop[] | undefined {
  const all = [...steps, ...(wrap ? [wrap] : [])],
    loops = all.flatMap(({ loop }) => loop ?? []);
  return loops.length === all.length && steps.at(-1)?.kind === 'selector' ? loops : undefined;
}
