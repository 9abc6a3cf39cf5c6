/**
 * Returns the opening of The Adventures of Tom Sawyer (public domain), which the embedded model was not trained on:
 * from a file in Node, by a request in a browser.
 */
export async function heldOutBook(): Promise<string> {
  const book = new URL('../data/tom-sawyer.txt', import.meta.url);
  // not an import, which a bundler for browsers would have to resolve
  if (book.protocol === 'file:') return process.getBuiltinModule('node:fs/promises').readFile(book, 'utf8');
  const response = await fetch(book);
  if (!response.ok) throw new Error(`expected the book at ${book.href}, got HTTP status ${response.status}`);
  return response.text();
}
