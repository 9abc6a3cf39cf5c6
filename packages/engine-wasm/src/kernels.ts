/** The functions of kernel/module.ts; addresses and row lengths are in bytes. */
export interface Kernels {
  setWide(wide: number): void;
  panelBytes(kind: number, inputs: number): number;
  pack(kind: number, source: number, rowBytes: number, rows: number, inputs: number, panel: number): void;
  row(kind: number, panel: number, inputs: number, r: number, out: number): void;
  quantise(x: number, n: number, q: number, meta: number, apart: number): void;
  rowProduct(
    kind: number,
    panels: number,
    blocks: number,
    x: number,
    meta: number,
    out: number,
    outputs: number,
    bias: number,
    from: number,
    to: number,
    scratch: number,
  ): void;
  rowsProduct(
    kind: number,
    panels: number,
    blocks: number,
    x: number,
    meta: number,
    rows: number,
    out: number,
    ldo: number,
    outputs: number,
    bias: number,
    from: number,
    to: number,
    scratch: number,
  ): void;
  floatProduct(
    kind: number,
    panels: number,
    inputs: number,
    x: number,
    ldx: number,
    rows: number,
    out: number,
    ldo: number,
    outputs: number,
    bias: number,
    from: number,
    to: number,
    scratch: number,
  ): void;
  /** Like `rowProduct`, for a few rows. */
  fewProduct: Kernels['rowsProduct'];
  /** Like `floatProduct`, for a few rows: each row's result is the one that it has alone. */
  fewFloats: Kernels['floatProduct'];
  /** Bytes of scratch that products of many rows need. */
  readonly SCRATCH: WebAssembly.Global;
  /** Returns the bytes of a thread's own memory before the part that code allocates. */
  ownBytes(): number;
  partBytes(heads: number, headDim: number): number;
  tokenScratch(group: number, headDim: number): number;
  rowsScratch(headDim: number): number;
  packScratch(headDim: number): number;
  memoryScratch(keyDim: number, valueDim: number): number;
  /**
   * Returns 1 if attention of blocks in 8 bits is faster, and the bytes of n slots of a KV head in its form; `decoded`: 1
   * where values are not stored as f32.
   */
  eights(headDim: number): number;
  packedBytes(eight: number, headDim: number, slots: number, decoded: number): number;
  /**
   * Moves rows `slots`, n ascending words, of `bytes` bytes each, one after the other to `to`, which may equal `from`.
   */
  gather(from: number, to: number, bytes: number, slots: number, n: number): void;
  /** Stores n rows of f32, `ldx` bytes apart, in a form of kernel/stored.ts, and gives them back. */
  encode(form: number, x: number, ldx: number, n: number, d: number, codes: number, scales: number): void;
  decode(form: number, codes: number, scales: number, n: number, d: number, to: number): void;
  /** Attention in steps: see kernel/scores.ts. */
  packKeys(keys: number, n: number, d: number, to: number): void;
  scorePacked(q: number, m: number, panels: number, n: number, d: number, out: number, ldo: number): void;
  scoreOne(q: number, keys: number, n: number, d: number, out: number): void;
  softmax(s: number, n: number, end: number, sink: number): void;
  columns(s: number, ld: number, rows: number, n: number, acc: number, top: number): void;
  mixRows(m: number, n: number, p: number, ldp: number, v: number, row: number, out: number, ldo: number): void;
  /** Part of @kv/cpu's kernel, see there. */
  norms(x: number, n: number, d: number, p: number, out: number): void;
  dots(q: number, rows: number, x: number, n: number, d: number, out: number, ldo: number): void;
  distances(q: number, rows: number, x: number, n: number, d: number, out: number, ldo: number): void;
  mix(p: number, ldp: number, rows: number, x: number, n: number, d: number, acc: number): void;
  extents(x: number, n: number, d: number, size: number, low: number, high: number): void;
  /** Σ |x_c| of each channel over x `[n, d]`, f64. */
  sizes(x: number, n: number, d: number, out: number): void;
  controlBytes(threads: number): number;
  join(control: number, me: number, threads: number, spins: number): void;
  spin(times: number): number;
  call(): void;
  /** Decodes keys for loops. */
  viewKeys(view: number, g: number, from: number, n: number, to: number): void;
  /** Functions of loops, those of `loopFunctions` of each. */
  readonly table: WebAssembly.Table;
}

/** Which instructions a module uses: plain SIMD, relaxed dots added in 16 bits, or in 32 bits. */
export type InstructionSet = 0 | 1 | 2;
/** How 8-bit codes are passed to the 32-bit dot: as two digits, unsigned, or signed. */
export type DotEncoding = 0 | 1 | 2;

/** A compiled module that passed the self-test here. */
export interface FastModule {
  readonly form: InstructionSet;
  readonly wide: DotEncoding;
  readonly module: WebAssembly.Module;
}

/** Returns the bytes of an activation in 8 bits. */
export const activationBytes = (form: InstructionSet): number => (form === 0 ? 2 : 1);

export const formNames: readonly [plain: string, relaxed16: string, relaxed32: string] = [
  'plain SIMD',
  'relaxed SIMD, 16 bits',
  'relaxed SIMD, 32 bits',
];

/** Returns the functions of a module over a memory. */
export function instantiate(
  { module, wide }: Pick<FastModule, 'module' | 'wide'>,
  memory: WebAssembly.Memory,
): Kernels {
  const kernels = new WebAssembly.Instance(module, { env: { memory, load } }).exports as unknown as Kernels;
  kernels.setWide(wide);
  return kernels;

  function load(at: number, bytes: number): void {
    addLoop(kernels, memory, at, bytes);
  }
}

/** The functions of a view's loop, as kernel/show.ts numbers them. */
export const loopFunctions = ['index', 'before', 'score', 'choose', 'finish', 'after'] as const;

/** Adds the functions of a loop's module to a table, in this order, null for those that it has not. */
function addLoop({ table, viewKeys: keys }: Kernels, memory: WebAssembly.Memory, at: number, bytes: number): void {
  const copy = new Uint8Array(memory.buffer, at, bytes).slice(),
    { exports } = new WebAssembly.Instance(new WebAssembly.Module(copy), { env: { memory, keys } });
  for (const name of loopFunctions) {
    const place = table.grow(1);
    if (typeof exports[name] === 'function') table.set(place, exports[name]);
  }
}
