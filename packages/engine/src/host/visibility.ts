import { KvError, layerInput } from '@kv/core';
import { expectPromises, runView } from '@kv/core/engine';
import type { AnySignal, LayerContext, Backend, Tensor, ViewHook } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { SlotVisibility } from '../attention/visible.ts';

/**
 * What a view hides, and what it selected by: for slots `[rows, n]`, the scores, and 1 where forced; `active` 0 where a
 * row selected nothing.
 */
export interface ViewSelection extends SlotVisibility {
  readonly by?: {
    readonly scores: Float32Array;
    readonly forced?: Float32Array | undefined;
    readonly active?: Float32Array | undefined;
  };
  /** Numbers that rows which chose have read; absent where only the view's pieces could tell. */
  readonly reads?: number;
}

/** Returns how many numbers the rows that choose read under a view, as its loops count them, if it has loops. */
function readsOf(
  { chooses, needs }: ViewHook,
  at: LayerContext,
  lengths: ArrayLike<number>,
  active?: ArrayLike<number>,
): number | undefined {
  if (!chooses) return needs.length === 0 ? 0 : undefined;
  if (!chooses.acts(at)) return 0;
  let numbers = 0;
  for (let h = 0; h < at.queryHeads; h++) {
    const slots = lengths[Math.floor((h * lengths.length) / at.queryHeads)];
    if (active?.[h] !== 0) for (const { reads } of chooses.loops) numbers += reads?.({ ...at, slots }) ?? 0;
  }
  return numbers;
}

/** Returns the views of a policy that act in this phase. */
export const viewsActing = (policy: CompiledPolicy, phase: 'prefill' | 'decode'): readonly ViewHook[] =>
  policy.hooks('view').filter(({ during }) => during === 'both' || during === phase);

/** Whether views of a policy read what a layer's projections read. */
export const readsLayerInput = (policy: CompiledPolicy): boolean =>
  policy.hooks('view').some(({ needs }) => needs.some(({ id }) => id === layerInput.id));

/** Returns a reader that also gives the input of the layer, of a token that is generated. */
export const withLayerInput =
  (
    read: (signal: AnySignal) => unknown,
    phase: 'prefill' | 'decode',
    input: (() => Tensor) | undefined,
  ): ((signal: AnySignal) => unknown) =>
  (signal) => {
    if (signal.id !== layerInput.id) return read(signal);
    if (phase === 'prefill' || !input)
      throw new KvError(
        'sequence',
        `the signal ${layerInput.id} is of a token that is generated: tokens of a prompt have none`,
      );
    return input();
  };

/**
 * Returns what the policy's views leave visible to the current queries of this layer, all views combined; where
 * `judged`, with what they selected by.
 * @param lengths slots in use, `[kvHead]`
 */
export async function visibleNow(
  policy: CompiledPolicy,
  phase: 'prefill' | 'decode',
  at: LayerContext,
  lengths: ArrayLike<number>,
  read: (signal: AnySignal) => unknown,
  backend: Backend,
  write: (needs: readonly AnySignal[], state: ReadonlyMap<string, Tensor>) => Promise<void>,
  judged: boolean,
): Promise<readonly ViewSelection[]> {
  const out: ViewSelection[] = [];
  for (const hook of viewsActing(policy, phase)) {
    const { mask, sinks, lower, state, chosen, checks = [] } = runView(hook, { at, ops: backend.ops, read });
    const by = judged && chosen ? [chosen.scores, chosen.forced, chosen.active] : [],
      chose = hook.chooses && chosen?.active,
      wanted = [...checks.map(({ bad }) => bad), ...[mask, chose, ...by].filter((x) => x !== undefined)],
      values = new Map((await backend.read(wanted)).map((value, i) => [wanted[i], value]));
    expectPromises(
      checks,
      wanted.slice(0, checks.length).map((x) => values.get(x)!), // read above
    );
    if (state) await write(hook.needs, state);
    const [scores, forced, active] = by.map((x) => x && (values.get(x)?.data as Float32Array)),
      hides = mask && values.get(mask)?.data,
      reads = readsOf(hook, at, lengths, chose && values.get(chose)?.data);
    out.push({
      ...(reads !== undefined && { reads }),
      ...(hides && { mask: shownBy(hides) }),
      ...(sinks !== undefined && { sinks }),
      ...(lower && { lower }),
      ...(scores && { by: { scores, forced, active } }),
    });
  }
  return out;
}

/** Returns 1 where a mask shows a slot. A loop: `from` with a function takes longer than attention. */
function shownBy(mask: ArrayLike<number>): Uint8Array {
  const shown = new Uint8Array(mask.length);
  for (let i = 0; i < shown.length; i++) shown[i] = mask[i] === 0 ? 0 : 1;
  return shown;
}
