import { compose, rerotate } from '@kv/core';
import type { Policy } from '@kv/core';
import { streaming as score } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

export type StreamingOptions = Parameters<typeof score>[0];
/**
 * StreamingLLM: sinks, then the most recent positions. Xiao et al. 2023, arXiv:2309.17453, with original positions
 * kept.
 */
export const streaming = (options?: StreamingOptions): Policy => compose(score(options), topK());
/**
 * StreamingLLM as its authors run it: keys stand at their positions within the cache. Xiao et al. 2023,
 * arXiv:2309.17453.
 */
export const streamingRerotated = (options?: StreamingOptions): Policy => compose(score(options), topK(), rerotate());
