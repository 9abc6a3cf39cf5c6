export { exact } from './exact.ts';
export { labels } from './labels.ts';
export { pageBound, pageBounds } from './page-bounds.ts';
