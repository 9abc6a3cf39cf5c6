import { builtin } from '@kv/checkpoints';
import type { FastModule, InstructionSet } from './kernels.ts';
import { moduleBytes } from './module-bytes.ts';
import { fastest, fits } from './self-test.ts';

/** Returns the module in this form, or undefined if its instructions are missing or give wrong results. */
export async function moduleOf(form: InstructionSet): Promise<FastModule | undefined> {
  const bytes = await unpacked(form);
  return valid(form, bytes) ? working(form, await WebAssembly.compile(bytes)) : undefined;
}

/** V8 flags that compile pairs of vectors to registers of 256 bits, at once and with the optimising compiler only. */
const paired = ['experimental-wasm-revectorize', 'no-liftoff', 'no-wasm-lazy-compilation', 'no-wasm-inlining'] as const,
  back = paired.map((flag) => (flag.startsWith('no-') ? flag.slice(3) : `no-${flag}`));

/**
 * Returns the module in this form, compiled by V8 for registers of 256 bits, or undefined where that is not known to
 * work. The flags apply to this compilation only.
 */
export async function pairedModuleOf(form: InstructionSet): Promise<FastModule | undefined> {
  const flags = pairing();
  if (flags === undefined) return undefined;
  const plain = await unpacked(form);
  if (!valid(form, plain)) return undefined;
  // one more empty section: for the same bytes V8 would return the code that it compiled without the flags
  const bytes = new Uint8Array(plain.length + 4);
  bytes.set(plain);
  bytes.set([0, 2, 1, 0x70], plain.length);
  return working(form, compiled(bytes, flags));
}

function compiled(bytes: Uint8Array<ArrayBuffer>, flags: NodeFlags): WebAssembly.Module {
  flags.set(paired);
  try {
    return new WebAssembly.Module(bytes);
  } finally {
    flags.set(back);
  }
}

function valid(form: InstructionSet, bytes: Uint8Array<ArrayBuffer>): boolean {
  return WebAssembly.validate(bytes) || (form > 0 && flagRelaxed() && WebAssembly.validate(bytes));
}

function working(form: InstructionSet, module: WebAssembly.Module): FastModule | undefined {
  for (const wide of form === 2 ? ([1, 2, 0] as const) : ([0] as const)) {
    const fast = { form, wide, module };
    if (fits(fast)) return fast;
  }
  return undefined;
}

let chosen: Promise<FastModule | undefined> | undefined;

/** Returns the fastest module of this process, measured once; undefined without WebAssembly SIMD or shared memory. */
export function fastModule(): Promise<FastModule | undefined> {
  return (chosen ??= choose());
}

async function choose(): Promise<FastModule | undefined> {
  if (typeof WebAssembly !== 'object' || typeof DecompressionStream !== 'function') return undefined;
  const known = formOfDot(),
    first = known && (await moduleFor(known));
  if (first) return first;
  const relaxed: FastModule[] = [];
  for (const form of [2, 1] as const) {
    const fast = form === known ? undefined : await moduleFor(form);
    if (fast !== undefined) relaxed.push(fast);
  }
  if (relaxed.length < 2) return relaxed[0] ?? moduleOf(0);
  return fastest(relaxed);
}

const moduleFor = async (form: InstructionSet): Promise<FastModule | undefined> =>
  (await pairedModuleOf(form)) ?? moduleOf(form);

/** A module whose function `f` gives a lane of the 32-bit relaxed dot of bytes 127 and 255. */
const dotProbe = Uint8Array.of(
  ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00], // magic and version
  ...[0x01, 0x05, 0x01, 0x60, 0x00, 0x01, 0x7f, 0x03, 0x02, 0x01, 0x00, 0x07, 0x05, 0x01, 0x01, 0x66, 0x00, 0x00],
  ...[0x0a, 0x17, 0x01, 0x15, 0x00], // the body's sizes
  ...[0x41, 0xff, 0x00, 0xfd, 0x0f, 0x41, 0x7f, 0xfd, 0x0f, 0x41, 0x00, 0xfd, 0x11], // splats of 127, 255 and 0
  ...[0xfd, 0x93, 0x02, 0xfd, 0x1b, 0x00, 0x0b], // the dot, its first lane
);

/**
 * Returns the relaxed form that is faster, where what the 32-bit dot does with large bytes tells it, so that the other one
 * need not be compiled and raced: pairs of products that saturate at 16 bits are x86 without VNNI, where that dot is three
 * instructions; a sum of four that does not is VNNI's one.
 */
function formOfDot(): 1 | 2 | undefined {
  if (!valid(2, dotProbe)) return undefined;
  const { f } = new WebAssembly.Instance(new WebAssembly.Module(dotProbe)).exports,
    sum = (f as () => number)();
  return sum === 2 * 0x7fff ? 1 : sum === 4 * 127 * 255 ? 2 : undefined;
}

async function unpacked(form: InstructionSet): Promise<Uint8Array<ArrayBuffer>> {
  const packed = Uint8Array.from(atob(moduleBytes[form]), (char) => char.charCodeAt(0));
  const chunks: Uint8Array<ArrayBuffer>[] = [],
    write = (chunk: Uint8Array<ArrayBuffer>): void => void chunks.push(chunk);
  // a Response would read them in one call, but makes Node load its HTTP client
  await new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip')).pipeTo(new WritableStream({ write }));
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

/** Sets the V8 flag that Node 20 needs for relaxed SIMD, and returns whether flags can be set here. */
function flagRelaxed(): boolean {
  const flags = nodeFlags();
  flags?.set(['experimental-wasm-relaxed-simd']);
  return flags !== undefined;
}

/**
 * Returns the flags of a V8 that is known to compile pairs of vectors correctly, Node 24 to 26. Another one may crash.
 */
function pairing(): NodeFlags | undefined {
  return /^(13\.6|14\.1|14\.6)\./.test(globalThis.process?.versions?.v8 ?? '') && process.arch === 'x64'
    ? nodeFlags()
    : undefined;
}

interface NodeFlags {
  set(names: readonly string[]): void;
}

function nodeFlags(): NodeFlags | undefined {
  const versions = globalThis.process?.versions as (NodeJS.ProcessVersions & { readonly bun?: string }) | undefined;
  if (versions?.node === undefined || versions.bun !== undefined) return undefined;
  const { setFlagsFromString } = builtin<typeof import('node:v8')>('node:v8');
  return { set: (names) => names.forEach((name) => setFlagsFromString(`--${name}`)) };
}
