export { exact } from './exact.ts';
export { labels } from './labels.ts';
export type { LabelsOptions } from './labels.ts';
export { pageBound, pageBounds } from './page-bounds.ts';
