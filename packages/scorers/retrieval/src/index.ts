export { newestQueryAttention } from './newest-query-attention.ts';
export { channelSizes, heavyChannelProducts } from './heavy-channel-products.ts';
export { pageBound, pageBounds } from './page-bounds.ts';
