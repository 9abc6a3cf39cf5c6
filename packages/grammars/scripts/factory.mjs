/** The text that is replaced in xgrammar 0.1.27's module, and by what. */
const edits = [
  // Node's modules are asked for where they are, so that no bundler looks for them
  ["await import('module')", '{ createRequire: () => require }'],
  // what its classes hide: how vectors are read in place
  ['binding = await Module()', 'binding = exports.binding = await Module()'],
  ['wasmMemory=wasmExports["S"]', 'wasmMemory=exports.memory=wasmExports["S"]'],
  // a compiler that goes wild ends at 256 MiB instead of 2 GiB
  ['getHeapMax=()=>2147483648', 'getHeapMax=()=>268435456'],
];

/**
 * Returns the body of a function of `require`, `__filename` and `console` that returns a new instance of xgrammar, made
 * of `lib/index.js` of @mlc-ai/web-xgrammar: a script (UMD) in a package of modules, which Node refuses as either.
 *
 * @param {string} umd the contents of `lib/index.js`
 */
export function factoryBody(umd) {
  const text = edits.reduce((text, [from, to]) => {
    if (text.split(from).length !== 2) throw new Error(`expected ${JSON.stringify(from)} once in lib/index.js`);
    return text.replace(from, to);
  }, umd.replace(/^\/\/# sourceMappingURL=.*$/m, ''));
  return `const exports = {}, module = { exports };\n(function () {\n${text}\n})();\nreturn exports;\n`;
}
