export { spans } from './spans.ts';
