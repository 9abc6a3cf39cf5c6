import { KvError } from '@kv/core';
import { kernelBytes } from './kernel-bytes.ts';

/** The functions of kernel/kernel.ts over one memory; pointers and row lengths are bytes. */
export interface Kernel {
  readonly memory: WebAssembly.Memory;
  gemm(
    m: number,
    n: number,
    k: number,
    a: number,
    lda: number,
    b: number,
    ldb: number,
    panel: number,
    c: number,
    ldc: number,
    first: number,
  ): void;
  pack(src: number, n: number, d: number, dst: number): void;
  dots(q: number, k: number, n: number, d: number, out: number): void;
  softmax(s: number, lo: number, hi: number, end: number): void;
  swiglu(src: number, rows: number, n: number, out: number): void;
  columns(s: number, ld: number, rows: number, n: number, acc: number, top: number): void;
}

/** Whether this process has WebAssembly with 128-bit SIMD (a browser in lockdown has not; then the plain loops run). */
export function hasSimd(): boolean {
  return typeof WebAssembly === 'object' && WebAssembly.validate(decode());
}

/** A kernel with its own memory. @throws a CompileError unless `hasSimd()`. */
export function createKernel(): Kernel {
  return new WebAssembly.Instance(new WebAssembly.Module(decode()), {}).exports as unknown as Kernel;
}

/** Grows the memory to at least `bytes`; views taken before are dead. @throws KvError if the engine gives no more. */
export function growTo(memory: WebAssembly.Memory, bytes: number): void {
  const pages = Math.ceil((bytes - memory.buffer.byteLength) / 65_536);
  if (pages <= 0) return;
  try {
    memory.grow(pages);
  } catch {
    throw new KvError(
      'kernel',
      `expected room for ${bytes} bytes of WebAssembly memory, got no more than ${memory.buffer.byteLength}`,
    );
  }
}

function decode(): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(kernelBytes), (char) => char.charCodeAt(0));
}
