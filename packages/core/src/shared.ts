/** What kernels of several pieces share with each other: parts of their references and of their WGSL. */

export { apportion } from './apportion.ts';
export { countBelow } from './count-below.ts';
export { extents } from './extents.ts';
export { factory } from './declare.ts';
export { inside } from './nested.ts';
export { merged } from './kinds.ts';
export { orWord } from './option.ts';
export { inner } from './inner.ts';
export { dotWith } from './dot-with.ts';
export { gram, inverse, quadratic } from './matrices.ts';
export { turn, turned, turnVectors } from './turn.ts';
export { windowSignal } from './host-signals.ts';
export { mulberry } from './random.ts';
export { range } from './range.ts';
export { placeInUnit } from './place-in-unit.ts';
export { uniformHash } from './uniform-hash.ts';
export { blockAttention, causalAttention, causalDot, overWindow } from './window-blocks.ts';
export type { WindowBlock } from './window-blocks.ts';
