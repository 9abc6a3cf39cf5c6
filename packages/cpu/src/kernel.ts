import { kernelBytes } from './kernel-bytes.ts';

/**
 * Type, address, bytes from row to row, whether it steps within a row, and the value of an operand that is a number.
 */
export type KernelOperand = readonly [type: number, at: number, outer: number, inner: number, value: number];

/** An f32 operand: address and strides. */
export type Operand4 = readonly [at: number, outer: number, inner: number];

/** The functions of kernel/kernel.ts over one memory; pointers and distances of rows are bytes. */
interface Functions {
  readonly memory: WebAssembly.Memory;
  readonly base: WebAssembly.Global;
  norms(x: number, n: number, d: number, p: number, out: number): void;
  extents(x: number, n: number, d: number, size: number, low: number, high: number): void;
  spreads(x: number, n: number, d: number, size: number, low: number, high: number, work: number, out: number): void;
  dots(q: number, rows: number, x: number, n: number, d: number, out: number, ldo: number): void;
  dotWith(x: number, index: number, n: number, d: number, out: number): void;
  distances(q: number, rows: number, x: number, n: number, d: number, out: number, ldo: number): void;
  mix(p: number, ldp: number, rows: number, x: number, n: number, d: number, acc: number): void;
  groups(kind: number, x: number, ldx: number, count: number, n: number, out: number): void;
  pool(x: number, n: number, kernel: number, max: number, out: number): void;
  firstBad(x: number, n: number, least: number): number;
  shares(x: number, n: number, out: number): void;
  zip(
    kind: number,
    outer: number,
    inner: number,
    ...operands: readonly [...KernelOperand, ...KernelOperand, out: number]
  ): void;
  choose(
    outer: number,
    inner: number,
    ...operands: readonly [...KernelOperand, ...KernelOperand, ...KernelOperand, out: number]
  ): void;
  zip4(kind: number, outer: number, inner: number, ...operands: readonly [...Operand4, ...Operand4, out: number]): void;
  choose4(
    outer: number,
    inner: number,
    ...operands: readonly [...Operand4, ...Operand4, ...Operand4, out: number]
  ): void;
  take(table: number, size: number, index: number, n: number, out: number): number;
  groupSlots(kind: number, x: number, group: number, n: number, count: number, work: number, out: number): number;
  fold(kind: number, x: number, n: number, mean: number): number;
  rank(x: number, n: number, work: number, out: number): void;
  widen(x: number, n: number, out: number): void;
  centre(x: number, n: number, d: number, c: number): void;
  gram(x: number, w: number, n: number, d: number, work: number, acc: number): void;
  quadratic(x: number, n: number, d: number, m: number, out: number): void;
  inverse(m: number, d: number, least: number, work: number): void;
  turn(
    x: number,
    n: number,
    d: number,
    half: number,
    cos: number,
    sin: number,
    index: number,
    size: number,
    back: number,
  ): void;
  products(q: number, rows: number, x: number, n: number, d: number, out: number, ldo: number): void;
  panels(x: number, n: number, d: number, out: number): void;
  multiply(q: number, rows: number, x: number, n: number, d: number, out: number, ldo: number): void;
  mass(x: number, ld: number, rows: number, n: number, out: number): void;
  attend(x: number, ld: number, rows: number, n: number, seen: number): void;
  errors(
    p: number,
    y: number,
    ld: number,
    rows: number,
    n: number,
    q: number,
    x: number,
    wide: number,
    d: number,
    work: number,
    out: number,
  ): void;
  tops(x: number, ld: number, rows: number, n: number, out: number): void;
  blend(x: number, n: number, d: number, into: number, w: number, acc: number): void;
  pick(
    names: number,
    n: number,
    x: number,
    d: number,
    s: number,
    likeness: number,
    lambda: number,
    picked: number,
    first: number,
    count: number,
    work: number,
    out: number,
  ): void;
  evict(
    names: number,
    n: number,
    ahead: number,
    gone: number,
    x: number,
    d: number,
    heads: number,
    h: number,
    near: number,
    along: number,
    ld: number,
    o: number,
    state: number,
    work: number,
  ): void;
  placeInUnit(x: number, unit: number, n: number, out: number): void;
  select(x: number, n: number, forced: number, banned: number, budget: number, work: number, out: number): number;
}

/** The kernel with its memory, and views of that which hold until more is asked for. */
export interface CpuKernel extends Functions {
  /** Places for so many bytes each, 16-byte aligned, with slack behind; what was there before is anyone's. */
  place(...bytes: readonly number[]): readonly number[];
  f32(): Float32Array;
  f64(): Float64Array;
  u32(): Uint32Array;
  /** Bytes of its memory, which grows to the largest call so far and stays. */
  readonly bytes: number;
}

function instance(): Functions | undefined {
  if (typeof WebAssembly !== 'object') return undefined;
  const text = atob(kernelBytes),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  try {
    return new WebAssembly.Instance(new WebAssembly.Module(bytes), {}).exports as unknown as Functions;
  } catch {
    return undefined; // to validate first would read it twice
  }
}

/** A kernel, or nothing where WebAssembly has no SIMD (a browser in lockdown). */
export function createKernel(): CpuKernel | undefined {
  const functions = instance();
  if (!functions) return undefined;
  const { memory } = functions,
    first = 16 * Math.ceil(functions.base.value / 16);
  let f32 = new Float32Array(0),
    f64 = new Float64Array(0),
    u32 = new Uint32Array(0);
  const look = (): void => {
    f32 = new Float32Array(memory.buffer);
    f64 = new Float64Array(memory.buffer);
    u32 = new Uint32Array(memory.buffer);
  };
  look();
  return {
    ...functions,
    place(...bytes) {
      const places = new Array<number>(bytes.length);
      let end = first;
      for (let i = 0; i < bytes.length; i++) {
        places[i] = end;
        end += 16 * Math.ceil(bytes[i] / 16) + 16;
      }
      if (end > memory.buffer.byteLength) {
        memory.grow(Math.ceil((end - memory.buffer.byteLength) / 65_536));
        look();
      }
      return places;
    },
    f32: () => f32,
    f64: () => f64,
    u32: () => u32,
    get bytes() {
      return memory.buffer.byteLength;
    },
  };
}
