/** Parts of references and WGSL that kernels of several pieces share. */

export { apportion } from './tensor/apportion.ts';
export { bytesText } from './text/bytes-text.ts';
export { counted } from './text/counted.ts';
export { countBelow } from './tensor/count-below.ts';
export { channelSizes, extents } from './tensor/extents.ts';
export { sumOf } from './tensor/sum-of.ts';
export { factory } from './piece/declare.ts';
export { inside } from './compose/nested.ts';
export { shares } from './piece/shares.ts';
export { mergeMasks } from './piece/drafts.ts';
export { orWord } from './piece/option.ts';
export { inner } from './tensor/inner.ts';
export { dotWith } from './tensor/dot-with.ts';
export { gram, inverse, quadratic } from './tensor/matrices.ts';
export { keysBeforeRotation, turn, turnAhead, rotateKernel, rotateVectors } from './piece/rotate.ts';
export { windowSignal } from './host/host-signals.ts';
export { repeating } from './text/repeating.ts';
export { mulberry } from './tensor/random.ts';
export { range } from './tensor/range.ts';
export { placeInUnit } from './tensor/place-in-unit.ts';
export { turnsOf } from './text/turns.ts';
export type { Turn } from './text/turns.ts';
export { uniformHash } from './tensor/uniform-hash.ts';
export {
  blockAttention,
  blockLogits,
  causalAttention,
  causalDot,
  overWindow,
  softmaxWithSinks,
} from './piece/window-blocks.ts';
export type { WindowBlock } from './piece/window-blocks.ts';
