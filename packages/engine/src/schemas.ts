/** The options of each function, declared. */
export * from './chat/chat-options.ts';
export * from './options.ts';
