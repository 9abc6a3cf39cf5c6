export { createServer, expectHost } from './server.ts';
export type { Server } from './server.ts';
export { CONVERSATIONS, DRAWS, LIMITS, SERVER } from './options.ts';
export type { ConversationsFolder, Limits, ServerOptions } from './options.ts';
export { readKeys } from './http/keys.ts';
export type { ConversationStore } from './run/conversation-store.ts';
