/**
 * The opening of The Adventures of Tom Sawyer (public domain), which the embedded model has never seen: a file in Node,
 * a request in a browser.
 */
export async function heldOutBook(): Promise<string> {
  const book = new URL('../data/tom-sawyer.txt', import.meta.url);
  // no import that a bundler for browsers would have to resolve
  if (book.protocol === 'file:') return process.getBuiltinModule('node:fs/promises').readFile(book, 'utf8');
  const response = await fetch(book);
  if (!response.ok) throw new Error(`expected the book at ${book.href}, got HTTP status ${response.status}`);
  return response.text();
}
