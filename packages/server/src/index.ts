export { createServer } from './server.ts';
export type { Limits, Server, ServerOptions } from './server.ts';
export { readKeys } from './http/keys.ts';
