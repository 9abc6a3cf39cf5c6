import { keys, KvError, positions, PROTOCOL, queries, rope } from '@kv/core';
import { signalKey, union } from '@kv/core/engine';
import { factory, inside, mergeMasks, range, turnAhead, windowSignal } from '@kv/core/shared';
import type { AnyScorer, AnySignal, Factory, Piece, Signal, Step, StepInput, Tensor } from '@kv/core';

/** Number of last queries that a signal is made of; 0 for signals that no window of queries makes. */
const queriesOf = ({ id, args }: AnySignal): number =>
  id === 'attention.last'
    ? 1
    : id === 'queries' || id === 'attention.window' || id === 'attention.max'
      ? Number(args?.['w'])
      : 0;

/** Returns the last w of the queries `[H, have, d]`, turned to the positions of the answer. */
function turned({ ops, at, read }: StepInput, all: Tensor, w: number): Tensor {
  const [heads, held, d] = all.shape,
    have = Math.min(held, w),
    last = ops.take(all, ops.from({ data: range(held - have, have), shape: [1, have] }, 'u32'));
  return turnAhead(ops, ops.reshape(last, [heads, have, d]), read(rope), at.length);
}

/** The same layer, whose signals of the last queries are those of the queries after they were turned. */
function moved(cell: StepInput, widest: number): StepInput {
  const { ops, at, read } = cell,
    known = new Map<string, Tensor>();
  const from = (signal: AnySignal, w: number): Tensor =>
    windowSignal(signal, {
      ...{ ops, at, keys: read(keys), positions: read(positions) },
      queries: turned(cell, read(queries(widest)), w),
    })!;
  return {
    ...cell,
    read: <V>(signal: Signal<string, V>): V => {
      const key = signalKey(signal),
        w = queriesOf(signal);
      if (w === 0) return read(signal);
      if (!known.has(key)) known.set(key, from(signal, w));
      return known.get(key) as V;
    },
  };
}

/** Signals by which a scorer would place the queries itself, or which no window of queries makes. */
const unmovable = (needs: readonly AnySignal[]): AnySignal | undefined =>
  needs.find((s) => s.id === rope.id || (s.id.startsWith('attention.') && queriesOf(s) === 0));

type Future = (<const P extends AnyScorer>(scorer: P) => Piece<'start', P['to'], 'future'>) &
  Pick<Factory<{}, Piece>, 'description' | 'options'>;
/**
 * Runs a scorer of the last w queries as if they stood where the answer will: the queries at the positions n - w .. n - 1
 * turn to n .. n + w - 1, by rotary position embedding, before the scorer reads them or their attention.
 *
 * @remarks DapQ's pseudo queries, Tian et al. 2026, arXiv:2603.11564, which finds that a query's position matters more
 * than its content, with the window's own queries as content. Only their places change: each sees the slots that it saw,
 * so that without rotation, as in layers without position embedding, the scores are the scorer's own. Rows, forced slots
 * and weights as in the scorer. Attention is the softmax of scaled q·k, with learned sinks, without soft caps or sliding
 * windows. Costs the scorer's window once more, O(w H n d), and a ring of w queries a layer.
 * @example
 * ```ts
 * compose(future(snapkv({ window: 32 })), topK())
 * ```
 * @throws KvError for a scorer that reads no window of queries, attention of other queries too, or the rotation itself.
 */
export const future: Future = factory<{}, Piece, [scorer: AnyScorer]>(
  'future',
  {
    source: 'Tian et al. 2026, arXiv:2603.11564',
    says: "A scorer of the last queries, which it sees at the answer's positions.",
  },
  { kind: 'scorer', takes: 'scorer', from: ['start'] },
  (_, label, scorer) => {
    const { hooks, run, needs, ...declared } = inside('future', [scorer]),
      widest = Math.max(0, ...needs.map(queriesOf)),
      strange = unmovable(needs);
    if (strange || widest === 0)
      throw new KvError(
        'future',
        `'${scorer.label}' reads ${strange ? signalKey(strange) : 'no queries'}, expected a scorer of the last queries or their attention, such as snapkv`,
      );
    const others = needs.filter((s) => queriesOf(s) === 0);
    const step: Step = {
      at: 'event',
      kind: 'scorer',
      name: 'future',
      label,
      ...declared,
      needs: union(others, [queries(widest), rope, keys, positions]),
      run: (cells) => {
        const [drafts] = run(cells.map((cell) => moved(cell, widest)));
        return cells.map((cell, i) => {
          const { scores } = drafts[i];
          return { ...mergeMasks(cell, drafts[i]), ...(scores && { scores }) };
        });
      },
    };
    return { protocol: PROTOCOL, from: ['start'], to: scorer.to, name: 'future', label, atoms: [step, ...hooks] };
  },
) as unknown as Future;
