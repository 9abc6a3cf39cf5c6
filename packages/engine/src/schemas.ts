/** The options of each function, declared. */
export * from './chat/chat-options.ts';
export { PROTECT } from './generate/protect.ts';
export * from './options.ts';
