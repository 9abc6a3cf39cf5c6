import type { Check, DraftSelection, PositionSpan, Step, StepInput } from '../piece/atoms.ts';
import { factory } from '../piece/declare.ts';
import type { Factory } from '../piece/declare.ts';
import { text } from '../piece/option.ts';
import type { Option } from '../piece/option.ts';
import { PHASES, PROTOCOL } from '../piece/piece.ts';
import type { HookPiece } from '../piece/piece.ts';
import { positions, sameSignal } from '../piece/signals.ts';
import { readSpans, slotsIn, spansText } from '../piece/spans.ts';
import { counted } from '../text/counted.ts';
import type { Ops } from '../tensor/maths.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** Most ranges of one piece: an event compares every slot with each. */
export const MOST_SPANS = 256;
const options: { readonly spans: Option<string | readonly PositionSpan[]> } = {
  spans: text(
    '0:1',
    `up to ${MOST_SPANS} ranges [from, to) of positions, such as '0:12 40:52'`,
    'Positions that stay: ranges from the first on, up to the last and without it.',
    (x) => {
      const spans = readSpans(x);
      return spans && spans.length > 0 && spans.length <= MOST_SPANS ? spansText(spans) : undefined;
    },
  ),
};

/**
 * Protects positions: no event of the policy evicts them, in any layer or KV head, whatever its other pieces score, ban
 * or release. They count within the budget; one that cannot hold them is refused. It stands anywhere in a policy.
 *
 * @example
 * ```ts
 * compose(taFast(), protect({ spans: [[0, 12], [40, 52]] }));
 * ```
 */
export const protect: Factory<typeof options, HookPiece<'protect'>> = factory(
  'protect',
  { source: '@kv/core', says: 'Positions that no event evicts, inside the budget.', options },
  { kind: 'hook', from: PHASES, to: 'same' },
  ({ spans }, label) => ({
    protocol: PROTOCOL,
    from: PHASES,
    to: 'same',
    name: 'protect',
    label,
    atoms: [{ at: 'protect', name: 'protect', label, needs: [], spans: readSpans(spans) ?? [] }], // read before
  }),
);

/**
 * Returns the steps of a policy with those that keep the spans: slots are forced once there are scores, again before the
 * selector, where no piece can release or ban them any more, and what the selector kept is checked.
 */
export function protecting(steps: readonly Step[], spans: readonly PositionSpan[]): readonly Step[] {
  if (spans.length === 0) return steps;
  const first = steps.findIndex(({ kind }) => kind === 'scorer'),
    force = forcing(spans);
  return steps.flatMap((step, i) =>
    step.kind === 'selector' ? [force, keeping(step, spans)] : i === first ? [step, force] : [step],
  );
}

/** Returns 1 at the slots of the spans, else 0, in the shape of the positions. */
function within(ops: Ops, spans: readonly PositionSpan[], p: Tensor): Tensor {
  return spans
    .map(([from, to]) => (from === 0 ? ops.less(p, to) : ops.mul(ops.atLeast(p, from), ops.less(p, to))))
    .reduce((a, b) => ops.max(a, b));
}

const forcing = (spans: readonly PositionSpan[]): Step => ({
  at: 'event',
  kind: 'transform',
  name: 'protect',
  label: `protect(${spansText(spans)})`,
  needs: [positions],
  reach: 'head',
  needsFullPrompt: false,
  monotone: true,
  spans,
  forcers: [`protect(${counted(slotsIn(spans), 'position')})`],
  run: (cells) =>
    cells.map((cell): DraftSelection => {
      const { ops, draft } = cell,
        mask = within(ops, spans, cell.read(positions)),
        { banned, forced } = draft;
      return {
        ...draft,
        forced: forced ? ops.max(forced, mask) : mask,
        ...(banned && { banned: ops.mul(banned, ops.not(mask)) }),
      };
    }),
});

/** Returns a selector that is held to the spans: an event in which it drops one fails before anything is evicted. */
const keeping = (step: Step, spans: readonly PositionSpan[]): Step => ({
  ...step,
  needs: step.needs.some((signal) => sameSignal(signal, positions)) ? step.needs : [...step.needs, positions],
  run(cells) {
    const drafts: unknown = step.run(cells);
    // what is no draft is refused where all drafts are checked
    return (
      Array.isArray(drafts)
        ? drafts.map((draft: DraftSelection | undefined, i) =>
            draft?.kept
              ? { ...draft, checks: [...draft.checks, keptOf(draft.kept, cells[i], step.name, spans)] }
              : draft,
          )
        : drafts
    ) as readonly DraftSelection[];
  },
});

/** Returns the promise that a selector has kept all slots of the spans. */
function keptOf(kept: Tensor, { ops, at, read }: StepInput, piece: string, spans: readonly PositionSpan[]): Check {
  const mask = within(ops, spans, read(positions)),
    wide = ops.broadcast(mask, Math.max(mask.shape[0], kept.shape[0]));
  return {
    bad: ops.firstBad(ops.sub(ops.mark(kept, wide), wide), 0),
    piece,
    layer: at.layer,
    what: 'protected slots',
    want: 'kept',
    got: 'one that is dropped',
    columns: at.slots,
    late: true,
  };
}
