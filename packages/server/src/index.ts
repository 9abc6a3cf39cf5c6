export { createServer } from './server.ts';
export type { Server } from './server.ts';
export { LIMITS, SERVER } from './options.ts';
export type { Limits, ServerOptions } from './options.ts';
export { readKeys } from './http/keys.ts';
export type { ConversationPlace, ConversationStore, FolderBounds } from './run/conversation-store.ts';
