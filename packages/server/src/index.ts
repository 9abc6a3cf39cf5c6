export { createServer } from './server.ts';
export type { Server } from './server.ts';
export { DRAWS, LIMITS, SERVER } from './options.ts';
export type { Limits, ServerOptions } from './options.ts';
export { readKeys } from './http/keys.ts';
