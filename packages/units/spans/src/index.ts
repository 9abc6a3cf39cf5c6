export { secondScore } from './second-score.ts';
export { spans } from './spans.ts';
