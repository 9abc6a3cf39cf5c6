import type { At } from './atoms.ts';
import { checkNumber, checkWord, isPositiveInteger, KvError } from './errors.ts';
import { label } from './author.ts';
import { PHASES } from './piece.ts';
import type { Piece, View } from './piece.ts';
import { compile, runEvent, union } from './run.ts';
import { positions, signalKey } from './signals.ts';

export interface ViewOptions {
  /** Slots visible per row. */
  readonly budget: number;
  /** Whose rows choose. @defaultValue 'query' */
  readonly rows?: 'query' | 'kv';
}

/** Turns any policy that evicts into one that hides: at every decoded token it selects anew, and evicts nothing. */
export function view(policy: Piece<'start', 'kept'>, { budget, rows = 'query' }: ViewOptions): View<'view'> {
  checkNumber('view', 'budget', budget, 'a positive whole number of slots', isPositiveInteger);
  checkWord('view', 'rows', rows, ['query', 'kv']);
  const inner = compile(policy);
  if (inner.reach === 'model')
    throw new KvError('view', `'${inner.label}' reaches over the whole model, expected a policy of one layer`);
  const passing = inner.needs.find((s) => s.provide !== undefined);
  if (passing)
    throw new KvError(
      'view',
      `'${inner.label}' needs ${signalKey(passing)}, a pass of its own, expected a policy that can select at every decoded token`,
    );
  const wrap = inner.hooks('wrapSelect')[0];
  const needs = union([positions], inner.needs, wrap?.needs ?? []);
  const own = (at: At): At => ({ ...at, selectRows: rows === 'query' ? at.queryHeads : at.kvHeads, budget });
  const text = label('view', { budget, rows, of: inner.label });
  return {
    protocol: 1,
    from: PHASES,
    to: 'same',
    name: 'view',
    label: text,
    atoms: [
      {
        at: 'view',
        name: 'view',
        label: text,
        during: 'decode',
        needs,
        run: (cell) => {
          const at = own(cell.at);
          const layer = {
            at,
            budgets: new Array<number>(at.selectRows).fill(Math.min(budget, at.slots)),
            read: (s: Parameters<typeof cell.read>[0]) => cell.read(s),
          };
          const { kept, state, scores, forced, active } = runEvent(inner, [layer], cell.ops, wrap)[0];
          return {
            mask: cell.ops.mark(kept!, cell.read(positions)),
            state,
            ...(scores && { chosen: { scores, forced, active } }),
          };
        },
      },
      ...policy.atoms.filter((a) => a.at === 'step'),
    ],
  };
}
