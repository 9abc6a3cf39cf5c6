import { cadence, entries, KvError, protect } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { AnyFactory, AnyScorer, Description, Phase, Piece, PositionSpan, Atom } from '@kv/core';
import { catalogue } from '@kv/policies';

/** One choice of a kind: a piece, or none. */
export interface Choice {
  readonly label: string;
  readonly piece?: Piece;
  readonly from: readonly Phase[];
  readonly to: Phase | 'same';
  /** Whether no view accepts it, because it reaches over the whole model, needs its own pass, or demotes slots. */
  readonly once: boolean;
}
/** The choices at one place of a composition. */
export interface Place {
  readonly kind: string;
  readonly choices: readonly Choice[];
}

/**
 * Returns a piece's option for a cache of a dozen slots: whole numbers above 3 become 3 if they are odd, such as
 * kernels, else 2; numbers from 1,024 on, which mean everything, become 16.
 */
const small = (value: unknown): unknown =>
  typeof value !== 'number' || !Number.isInteger(value) || value <= 3
    ? value
    : value >= 1024
      ? 16
      : value % 2 === 1
        ? 3
        : 2;
const smaller = ({ description: { kind, options } }: AnyFactory): readonly object[] => {
  // levels that heads of 8 channels fit
  if (kind === 'demotion') return [{ f16: 0.5, q8: 0.5 }];
  const all = Object.entries(options).map(([name, option]) => [name, small(option.default)]);
  return all.length === 0 ? [] : [Object.fromEntries(all) as object];
};

const PHASES: readonly Phase[] = ['start', 'scores', 'weights', 'units', 'kept'];
const NONE: Choice = { label: 'none', from: PHASES, to: 'same', once: false };
const choice = (piece: Piece): Choice => {
  const { reach, needs, levels } = compile(piece);
  return {
    label: piece.label,
    piece,
    from: piece.from,
    to: piece.to,
    once: levels !== undefined || reach === 'model' || needs.some((s) => s.provide !== undefined),
  };
};

const factories = entries(catalogue)
  .map(({ factory }) => factory)
  .filter(({ description: { from } }) => from !== undefined);
const taking = (takes: Description['takes']): readonly AnyFactory[] =>
  factories.filter(({ description }) => description.takes === takes);
const plain = taking('nothing').map((factory) => factory(...smaller(factory)) as Piece);
const leaving = (to: Phase): readonly AnyScorer[] =>
  plain.filter((p) => p.from.join() === 'start' && p.to === to) as readonly AnyScorer[];
const [weightScorer, other] = leaving('weights'),
  [scorer] = leaving('scores');
/** Arguments of combinations: two scorers of weights, or one whose scores may be negative. */
const terms: readonly (readonly (readonly [weight: number, scorer: AnyScorer])[])[] = [
  [
    [1, weightScorer],
    [2, other],
  ],
  [
    [1, weightScorer],
    [-0.5, scorer],
  ],
];

/** Returns the arguments of a piece with the first of these scorers that it accepts. */
function around(factory: AnyFactory, [by, ...others]: readonly AnyScorer[]): readonly unknown[] {
  if (!by) return [];
  try {
    return [factory(by, ...smaller(factory))];
  } catch (cause) {
    if (KvError.is(cause)) return around(factory, others);
    throw cause;
  }
}

/** Positions that the choice of protecting keeps. */
const PROTECTED: readonly PositionSpan[] = [[2, 4]];

function made(): readonly Piece[] {
  const combined = [
    ...taking('scorers').flatMap((join) => terms.map((inner) => join(...inner.map(([, piece]) => piece)))),
    ...taking('terms').flatMap((join) => terms.map((inner) => join(...inner))),
    ...taking('scorer').flatMap((factory) =>
      [leaving('weights').slice(1), leaving('scores')].flatMap((scorers) => around(factory, scorers)),
    ),
  ] as readonly Piece[];
  const timed = plain.some((p) => p.atoms.some((a) => a.at === 'cadence' && a.block && a.every))
    ? []
    : [cadence({ block: 4 }), cadence({ every: 2 }), cadence({ block: 4, every: 2 })];
  return [
    ...plain.filter((p) => !['cadence', 'protect'].includes(p.label)),
    ...combined,
    ...timed,
    protect({ spans: PROTECTED }),
  ].filter((p, i, all) => all.findIndex((q) => q.label === p.label) === i);
}

const KIND: Readonly<Record<Exclude<Atom['at'], 'event'>, string>> = {
  step: 'step hook',
  view: 'hiding',
  freeze: 'freezing',
  compact: 'merging',
  // what folds slots at their positions stands with nothing that moves them
  evict: 'merging',
  attend: 'merging',
  cadence: 'cadence',
  wrapSelect: 'sharing',
  protect: 'protecting',
};
/** Returns the kind of a piece, by its atoms. */
function kindOf({ atoms, from }: Piece): string {
  const first = atoms.find((a) => a.at === 'event') ?? atoms[0];
  if (first.at !== 'event') return KIND[first.at];
  if (first.kind === 'unit' && from.includes('units')) return 'unit transform';
  return first.kind === 'allocator' ? (first.plan ? 'allocator' : 'score allocator') : first.kind;
}
/** Order of the event's kinds: budgets before the scores are read, then by the scores, then units. */
const INNER = [
  'scorer',
  'transform',
  'allocator',
  'score allocator',
  'unit',
  'unit transform',
  'selector',
  'demotion',
  'sharing',
];
const NEEDED = ['scorer', 'selector'];

const all = made(),
  kinds = [...new Set(all.map(kindOf))];
const place = (kind: string): Place => ({
  kind,
  choices: [...(NEEDED.includes(kind) ? [] : [NONE]), ...all.filter((p) => kindOf(p) === kind).map(choice)],
});

/** Places of what a policy evicts by or, inside a view, hides by. */
export const inner: readonly Place[] = INNER.map(place);
/** Whether the policy is inside a view, and whose rows choose there. */
export const VIEWS = ['none', 'query', 'kv'] as const;
/** The places outside a view. */
export const outer: readonly Place[] = kinds.filter((k) => !INNER.includes(k)).map(place);
