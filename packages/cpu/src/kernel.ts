import { KvError } from '@kv/core';
import type { WasmMemory } from '@kv/core';
import { kernelBytes } from './kernel-bytes.ts';

/**
 * Operand of the kernel: type, address, row stride in bytes, whether it steps within a row, and its value if it is a
 * number.
 */
export type KernelOperand = readonly [type: number, at: number, outer: number, inner: number, value: number];

/** An f32 operand: address and strides. */
export type Operand4 = readonly [at: number, outer: number, inner: number];

/** The functions of kernel/kernel.ts over one memory; pointers and row strides are in bytes. */
interface Functions {
  readonly memory: WebAssembly.Memory;
  readonly base: WebAssembly.Global;
  norms(x: number, n: number, d: number, p: number, out: number): void;
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
  placeInUnit(x: number, unit: number, n: number, out: number): void;
  select(x: number, n: number, forced: number, banned: number, budget: number, work: number, out: number): number;
}

/** The kernel with its memory. */
export interface CpuKernel extends Functions, WasmMemory {
  /** Size of its memory in bytes, which grows to the largest call so far and never shrinks. */
  readonly bytes: number;
}

/** Returns the exports of a module. @throws what `WebAssembly.Instance` throws */
function exportsOf(base64: string): WebAssembly.Exports {
  const text = atob(base64),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return new WebAssembly.Instance(new WebAssembly.Module(bytes), {}).exports;
}

/** Returns buffers and views of a memory whose first bytes are the module's own. */
function memoryOf(memory: WebAssembly.Memory, base: number): WasmMemory & { readonly bytes: number } {
  const first = 16 * Math.ceil(base / 16);
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
    place(...bytes) {
      const places = new Array<number>(bytes.length);
      let end = first;
      for (let i = 0; i < bytes.length; i++) {
        places[i] = end;
        end += 16 * Math.ceil(bytes[i] / 16) + 16;
      }
      if (end > memory.buffer.byteLength) memory.grow(Math.ceil((end - memory.buffer.byteLength) / 65_536));
      if (f32.buffer !== memory.buffer) look();
      return places;
    },
    putVectors(x, d, deep, first, n, at) {
      if (d === deep) {
        f32.set(x.subarray(first * d, (first + n) * d), at / 4);
        return;
      }
      f32.fill(0, at / 4, at / 4 + n * deep);
      for (let i = 0; i < n; i++) f32.set(x.subarray((first + i) * d, (first + i + 1) * d), at / 4 + i * deep);
    },
    f32: () => f32,
    f64: () => f64,
    u32: () => u32,
    get bytes() {
      return memory.buffer.byteLength;
    },
  };
}

/** Returns a kernel, or undefined where WebAssembly has no SIMD (a browser in lockdown). */
export function createKernel(): CpuKernel | undefined {
  if (typeof WebAssembly !== 'object') return undefined;
  let functions: Functions;
  try {
    functions = exportsOf(kernelBytes) as unknown as Functions;
  } catch {
    return undefined; // validating first would parse it twice
  }
  return withMemory(functions);
}

const withMemory = <F extends { readonly memory: WebAssembly.Memory; readonly base: WebAssembly.Global }>(
  functions: F,
): F & WasmMemory & { readonly bytes: number } => {
  const memory = memoryOf(functions.memory, Number(functions.base.value));
  // keeps getters as getters
  return Object.defineProperties({ ...functions }, Object.getOwnPropertyDescriptors(memory)) as F & typeof memory;
};

/** Modules of pieces by their bytes. One serves all callers, since it holds nothing between calls. */
const modules = new Map<string, ReturnType<typeof withMemory>>();

/**
 * Returns the module of a piece's kernel.
 * @throws KvError naming the kernel, for bytes that are not a module of the right form
 */
export function pieceModule(id: string, bytes: string): WasmMemory {
  const known = modules.get(bytes);
  if (known) return known;
  let found: WebAssembly.Exports;
  try {
    found = exportsOf(bytes);
  } catch (cause) {
    throw new KvError(id, `expected the base64 of a WebAssembly module without imports, got: ${String(cause)}`);
  }
  const { memory, base } = found;
  if (!(memory instanceof WebAssembly.Memory) || !(base instanceof WebAssembly.Global))
    throw new KvError(id, `expected a module that exports 'memory' and the global 'base', got ${Object.keys(found)}`);
  const made = withMemory({ ...found, memory, base });
  modules.set(bytes, made);
  return made;
}

/** Returns the total size of the memories of pieces' modules, in bytes. */
export const pieceBytes = (): number => [...modules.values()].reduce((sum, { bytes }) => sum + bytes, 0);
