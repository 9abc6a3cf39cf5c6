export { adaKV } from './ada-kv.ts';
export type { AdaKvOptions } from './ada-kv.ts';
