import { builtin } from '../checkpoint/builtin.ts';
import type { FastModule, Form } from './kernels.ts';
import { moduleBytes } from './module-bytes.ts';
import { fastest, fits } from './self-test.ts';

/** A module in this form, or nothing where its instructions are missing or give wrong results. */
export async function moduleOf(form: Form): Promise<FastModule | undefined> {
  const bytes = await unpacked(form);
  if (!WebAssembly.validate(bytes) && !(form > 0 && flagRelaxed() && WebAssembly.validate(bytes))) return undefined;
  const module = await WebAssembly.compile(bytes);
  for (const wide of form === 2 ? ([1, 2, 0] as const) : ([0] as const)) {
    const fast = { form, wide, module };
    if (fits(fast)) return fast;
  }
  return undefined;
}

let chosen: Promise<FastModule | undefined> | undefined;

/** The fastest form of this process, measured once; undefined where there is no WebAssembly SIMD or shared memory. */
export function fastModule(): Promise<FastModule | undefined> {
  return (chosen ??= choose());
}

async function choose(): Promise<FastModule | undefined> {
  if (typeof WebAssembly !== 'object' || typeof DecompressionStream !== 'function') return undefined;
  const relaxed: FastModule[] = [];
  for (const form of [2, 1] as const) {
    const fast = await moduleOf(form);
    if (fast !== undefined) relaxed.push(fast);
  }
  if (relaxed.length < 2) return relaxed[0] ?? moduleOf(0);
  return fastest(relaxed);
}

async function unpacked(form: Form): Promise<Uint8Array<ArrayBuffer>> {
  const packed = Uint8Array.from(atob(moduleBytes[form]), (char) => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Node 20 has relaxed SIMD behind a flag of V8. */
function flagRelaxed(): boolean {
  if (typeof process !== 'object' || process.versions?.node === undefined) return false;
  builtin('node:v8').setFlagsFromString('--experimental-wasm-relaxed-simd');
  return true;
}
