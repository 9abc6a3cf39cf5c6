/** Returns the body of a function that makes an instance of xgrammar, of the contents of its `lib/index.js`. */
export function factoryBody(umd: string): string;
