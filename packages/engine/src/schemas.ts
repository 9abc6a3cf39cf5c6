/** The options of each function, declared. */
export * from './chat/chat-options.ts';
export { PROTECT, PROTECT_ALWAYS } from './generate/protect.ts';
export * from './options.ts';
