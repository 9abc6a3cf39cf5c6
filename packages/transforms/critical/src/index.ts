export { criticalkv } from './criticalkv.ts';
export { outputShare } from './output-share.ts';
