export { adaKV } from './ada-kv.ts';
