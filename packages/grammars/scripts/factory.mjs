/** The text that is replaced in xgrammar 0.1.27's module, and by what. */
const edits = [
  // Node's modules are asked for where they are, so that no bundler looks for them
  ["await import('module')", '{ createRequire: () => require }'],
  // what its classes hide: its memory, its types, and how vectors are read in place
  ['binding = await Module()', 'binding = exports.binding = await Module()'],
  ['wasmMemory=wasmExports["S"]', 'exports.grown=updateMemoryViews;wasmMemory=exports.memory=wasmExports["S"]'],
  ['var registeredTypes={}', 'var registeredTypes=exports.types={}'],
  // every instance begins with the same memory, so that one can go on from a copy of another's
  ['thisProgram||"./this.program"', '"xgrammar"'],
  ['typeof navigator=="object"&&navigator.languages&&navigator.languages[0]||"C"', '"C"'],
  // a compiler that goes wild ends at 256 MiB instead of 2 GiB
  ['getHeapMax=()=>2147483648', 'getHeapMax=()=>268435456'],
];

/**
 * Automata of any size are left as they are, not those of more than 100,000 states (1,200,000 bytes) alone: the merging of
 * states lets through texts that no rule has (mlc-ai/xgrammar, issue 618, mended after 0.1.27). What follows it, a DFA of
 * the fewest states, is right. `i32.const 1200001; i32.ge_s; if` becomes `i32.const 1; i32.ge_s; if`.
 */
const merging = [
  [0x41, 0x81, 0x9f, 0xc9, 0x00, 0x4e, 0x04, 0x40],
  [0x41, 0x81, 0x80, 0x80, 0x00, 0x4e, 0x04, 0x40],
].map((bytes) => Buffer.from(bytes).toString('latin1'));

/**
 * Returns the body of a function of `require`, `__filename` and `console` that returns a new instance of xgrammar, made
 * of `lib/index.js` of @mlc-ai/web-xgrammar: a script (UMD) in a package of modules, which Node refuses as either.
 *
 * @param {string} umd the contents of `lib/index.js`
 */
export function factoryBody(umd) {
  const text = edits.reduce(
    (text, [from, to]) => replaced(text, from, to),
    umd.replace(/^\/\/# sourceMappingURL=.*$/m, ''),
  );
  const [wasm] = /AGFzbQ[A-Za-z0-9+/=]+/.exec(text) ?? [''],
    code = replaced(Buffer.from(wasm, 'base64').toString('latin1'), merging[0], merging[1]);
  return `const exports = {}, module = { exports };\n(function () {\n${replaced(text, wasm, Buffer.from(code, 'latin1').toString('base64'))}\n})();\nreturn exports;\n`;
}

/** Replaces what must be in a text once. */
function replaced(text, from, to) {
  if (text.split(from).length !== 2)
    throw new Error(`expected ${JSON.stringify(from.slice(0, 60))} once in lib/index.js`);
  return text.replace(from, () => to);
}
