export { newestQueryAttention } from './newest-query-attention.ts';
export { heavyChannelProducts } from './heavy-channel-products.ts';
export { pageBound, pageBounds } from './page-bounds.ts';
