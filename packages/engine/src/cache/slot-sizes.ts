import { LEVELS, meanSlotBytes } from '@kv/core';
import type { AnySignal, LevelShares, SlotBytes } from '@kv/core';
import { isState, stateColumns } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { headDims, slotHeads, slotRows, type ModelConfig } from '@kv/checkpoints';
import { sumOf } from '@kv/core/shared';
import { slotModel } from '../decoder/keeps.ts';
import { expectLevels, movedForm, slotBytes, tokenBytes, type CacheForm, type StorageForm } from './form.ts';

/** Whether a policy moves kept slots together, which then have rotations of their own. */
export const movesTogether = ({ hooks }: Pick<CompiledPolicy, 'hooks'>): boolean =>
  hooks('compact').some((hook) => hook.movesTogether);

/** Whether a policy may give slots biases, each a number a slot and KV head. */
export const givesBiases = ({ hooks }: Pick<CompiledPolicy, 'hooks'>): boolean =>
  hooks('compact').some((hook) => hook.givesBiases);

/** What a sequence holds under any policy: what attention goes on adding, biases of slots, and words of demoted ones. */
export interface HeldBefore extends Pick<SlotTraits, 'biased' | 'demoted'> {
  /** Reads the states that slots were folded into. */
  readonly attends?: { readonly needs: readonly AnySignal[] } | undefined;
}

/**
 * Returns the bytes of the states that a policy folds leaving slots into, of a whole sequence.
 * @param attends reads states that earlier slots were folded into, where the policy folds none
 */
export const foldedBytes = (
  { hooks }: Pick<CompiledPolicy, 'hooks'>,
  config: Pick<ModelConfig, 'mixers'>,
  attends?: HeldBefore['attends'],
): number =>
  sumOf(
    (hooks('evict').length > 0 ? hooks('evict') : attends ? [attends] : []).flatMap(({ needs }) =>
      needs
        .filter(isState)
        .flatMap(({ state }) =>
          state.kind === 'sequence'
            ? slotHeads(config).map(
                ({ kvHeads, headDim }) => 4 * (state.rows === 'kv' ? kvHeads : 1) * stateColumns(state, headDim),
              )
            : [],
        ),
    ),
  );

/** What slots have in addition to keys, values and positions, and where they may lie. */
interface SlotTraits {
  /** They are moved, and then have rotations of their own and keys of at least 16 bits. */
  readonly moved?: boolean;
  /**
   * Shares of the kept slots at each level: the bytes are then the most that a slot has on average, those of the cache's
   * form where no shares are known.
   */
  readonly levels?: readonly LevelShares[];
  /** They have biases. */
  readonly biased?: boolean;
  /** Some were demoted before. */
  readonly demoted?: boolean;
  /** Layers give slots to one another: each is counted with the widest heads, in which all may end up. */
  readonly acrossLayers?: boolean;
  /** Bytes that a policy holds in addition to slots. */
  readonly fixed?: number;
}

/**
 * Returns the bytes of one slot in every layer and KV head of a sequence's caches: keys, values and positions, summed
 * over the layers that keep slots, and KV heads. Layers with sliding windows hold fewer slots than a budget allows, and then fewer bytes.
 */
export function slotSizes(
  config: Pick<ModelConfig, 'mixers'>,
  form: CacheForm,
  { moved = false, levels = [], biased = false, demoted = false, acrossLayers = false, fixed = 0 }: SlotTraits = {},
): SlotBytes {
  const own = LEVELS.indexOf(form),
    heads = slotRows(config),
    widest = Math.max(...headDims(config)),
    inAll = (other: StorageForm): number =>
      sumOf(
        slotHeads(config).map(({ kvHeads, headDim }) => kvHeads * slotBytes(other, acrossLayers ? widest : headDim)),
      ),
    // a layer of which no slot is demoted is stored as if none could be
    undemoted = inAll(moved ? movedForm(form) : form);
  const coarse = levels.some(
      (shares) => Object.keys(shares).length === 0 || LEVELS.some((level, at) => at > own && (shares[level] ?? 0) > 0),
    ),
    mean = coarse
      ? meanSlotBytes(levels, (level) => (LEVELS.indexOf(level) > own ? inAll(level) : undemoted))
      : undefined,
    // a slot at a level finds its numbers by a word
    words = Number(moved) + Number(coarse || demoted) + Number(biased);
  return {
    form,
    bytesPerSlot: Math.ceil(mean ?? undemoted) + 4 * words * heads,
    ...(fixed > 0 && { fixedBytes: fixed }),
    bytesOf: (other) => tokenBytes(other, config),
  };
}

/**
 * Returns the bytes of `slots` slots in every layer and KV head, of the sizes that `slotSizes` gives; a layer with a sliding
 * window holds no more slots than that.
 */
export function bytesOfSlots(
  config: ModelConfig,
  { form, bytesPerSlot, fixedBytes = 0 }: SlotBytes,
  slots: number,
): number {
  const { windows } = slotModel(config).attention,
    each = slotHeads(config).map(({ kvHeads, headDim }) => kvHeads * slotBytes(form, headDim)),
    held = each.map((bytes, l) => bytes * Math.min(slots, windows[l] ?? Infinity));
  return Math.ceil((bytesPerSlot * sumOf(held)) / sumOf(each)) + fixedBytes;
}

/** Checks that a model's heads can be stored at the levels of a policy. @throws KvError naming a level that they do not fit */
export function expectLevelsFit(
  { levels = [] }: Pick<CompiledPolicy, 'levels'>,
  config: Pick<ModelConfig, 'mixers'>,
): void {
  const used = LEVELS.filter((level) => levels.some((shares) => (shares[level] ?? 0) > 0));
  expectLevels('policy', used, headDims(config));
}

/** Whether layers give slots, or levels of slots, to one another under a policy. */
const sharesLayers = ({ steps }: Pick<CompiledPolicy, 'steps'>): boolean =>
  steps.some(
    ({ kind, forces, reach, plan }) =>
      (kind === 'allocator' || kind === 'demotion') && !forces && (reach === 'model' || plan !== undefined),
  );

/**
 * Returns `slotSizes` under a policy: the levels and biases that it gives, what it folds, and whether slots change layers.
 * @param moved whether slots are moved @defaultValue whether the policy moves them
 */
export const policySizes = (
  config: Parameters<typeof slotSizes>[0],
  form: CacheForm,
  policy: Pick<CompiledPolicy, 'hooks' | 'levels' | 'steps'>,
  moved: boolean = movesTogether(policy),
  { attends, biased = false, demoted = false }: HeldBefore = {},
): SlotBytes =>
  slotSizes(config, form, {
    ...{ moved, demoted, biased: biased || givesBiases(policy), acrossLayers: sharesLayers(policy) },
    ...(policy.levels && { levels: policy.levels }),
    fixed: foldedBytes(policy, config, attends),
  });
