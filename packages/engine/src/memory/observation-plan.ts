import { KvError } from '@kv/core';
import { isInputSignal, signalKey, slotState } from '@kv/core/engine';
import type { AnySignal, InputSignal, WindowStatistic } from '@kv/core';
import { joinedHeads } from '../decoder/keeps.ts';
import type { SequenceCaches } from './caches.ts';
import type { SumRows } from './snapshot.ts';
import { weighs } from '../attention/window-statistic.ts';

/** What a layer must record while tokens pass, so that an event can read its signals later. */
export interface ObservationPlan {
  /** Queries to keep. */
  readonly window: number;
  /** Rows of the running sums. Sums by query head also serve readers of sums by KV head. */
  readonly accumulated: SumRows | undefined;
  readonly block: boolean;
  /** Signals of the layer's input. */
  readonly inputs: readonly InputSignal[];
}

const WINDOWS: Readonly<Record<string, (s: AnySignal) => number>> = {
  'attention.last': () => 1,
  'attention.window': (s) => Number(s.args?.w),
  'attention.max': (s) => Number(s.args?.w),
  queries: (s) => Number(s.args?.w),
};

/** Returns how many last queries a signal reads; 0 for other signals. */
export const windowOf = (signal: AnySignal): number => WINDOWS[signal.id]?.(signal) ?? 0;

const isStatistic = (of: unknown): of is WindowStatistic => typeof of === 'string' && Object.hasOwn(weighs, of);

/**
 * Returns the statistic of each slot's weights that a signal of the last queries reads; undefined for their mean.
 * @throws KvError for an unknown statistic.
 */
export function statisticOf(signal: AnySignal): 'max' | WindowStatistic | undefined {
  const of = signal.args?.['of'];
  if (signal.id === 'attention.max') return 'max';
  if (of === undefined || isStatistic(of)) return of;
  throw new KvError(
    'sequence',
    `no signal ${signalKey(signal)}: expected 'of' to be one of ${Object.keys(weighs).join(', ')}, got '${of}'`,
  );
}

/** Returns the smallest plan that serves all these signals. */
export const observationPlan = (needs: readonly AnySignal[]): ObservationPlan => ({
  window: Math.max(0, ...needs.map(windowOf)),
  accumulated: needs.reduce<SumRows | undefined>(
    (rows, s) => (s.id !== 'attention.accumulated' || rows === 'query' ? rows : sumRows(s)),
    undefined,
  ),
  block: needs.some((s) => s.id === 'attention.block'),
  inputs: needs.filter(isInputSignal),
});

/** Returns the rows that a signal of running sums reads. */
export const sumRows = ({ args }: AnySignal): SumRows => (args?.rows === 'kv' ? 'kv' : 'query');

/** Whether every layer records what these signals read. */
export function isRecorded(signals: readonly AnySignal[], { layers, context: { model } }: SequenceCaches): boolean {
  const { window, accumulated, block, inputs } = observationPlan(signals),
    heads = joinedHeads(model.config);
  return layers.every(
    ({ ring, accumulated: sums, block: newest, states }, l) =>
      (ring?.window ?? 0) >= window &&
      (!accumulated || (sums?.rows ?? 0) >= heads[l][accumulated === 'kv' ? 'kvHeads' : 'queryHeads']) &&
      (!block || newest !== undefined) &&
      inputs.every((input) => states.has(slotState(input).id)),
  );
}

/** @throws KvError for a signal of which some layer did not record what it reads */
export function expectRecorded(signals: readonly AnySignal[], caches: SequenceCaches): void {
  for (const signal of signals)
    if (!isRecorded([signal], caches)) throw notRemembered(signal, { freed: caches.layers.some(({ freed }) => freed) });
}

/**
 * Returns the error for a signal that an event needs and that was not recorded.
 * @param freed whether it may have been freed, as nothing was to read it any more
 * @param saved the policy of the file that lacks it
 */
export const notRemembered = (
  signal: AnySignal,
  { freed = false, saved = '' }: { readonly freed?: boolean; readonly saved?: string } = {},
): KvError =>
  new KvError(
    'sequence',
    freed
      ? `the signal ${signalKey(signal)} was freed, since no event was to follow: give \`decode\` \`remember\` or \`every\`, and \`prefill\` no \`forget\``
      : `the signal ${signalKey(signal)} was not remembered while the prompt passed: name the policy in prefill's \`policies\`${saved && `, or go on under the one that it was saved under, '${saved}'`}`,
  );
