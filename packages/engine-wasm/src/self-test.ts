import { activationBytes, instantiate, type FastModule } from './kernels.ts';
import { kinds } from './kinds.ts';

const inputs = 64,
  outputs = 16,
  rows = 4;
/** Addresses in a memory of its own. */
const [source, panel, x, codes, meta, out, scratch] = [0, 1, 2, 3, 4, 5, 8].map((i) => 1024 + 8192 * i);

/** The f16 number 1. */
const one = 0x3c00;

/** Stored rows of codes of 4, 5 and 8 bits, the extreme ones among them, in blocks of scale 1; what 0 is as a code. */
const stored = [
  { kind: kinds.Q4_0, bytes: 18, codes: 2, most: 255 },
  { kind: kinds.Q5_0, bytes: 22, codes: 2, most: 255 },
  { kind: kinds.Q8_0, bytes: 34, codes: 2, most: 255 },
] as const;

/**
 * Returns whether products of one row and of many are exact to the last bit, with codes and activations that would
 * overflow any narrower arithmetic. Some engines compute relaxed dots wrongly, even in the baseline compiler only.
 */
export function fits(fast: FastModule): boolean {
  const memory = new WebAssembly.Memory({ initial: 8, maximum: 8, shared: true }),
    kernels = instantiate(fast, memory);
  return stored.every(({ kind, ...form }) => {
    place(memory, form);
    kernels.pack(kind, source, (inputs / 32) * form.bytes, outputs, inputs, panel);
    const width = activationBytes(fast.form) * inputs;
    for (let r = 0; r < rows; r++)
      kernels.quantise(x + 4 * r * inputs, inputs, codes + r * width, meta + (r * inputs) / 2, 1);
    const activations = new Float32Array(memory.buffer, x, rows * inputs).slice(),
      want = Float32Array.from({ length: rows * outputs });
    for (let o = 0; o < outputs; o++) {
      kernels.row(kind, panel, inputs, o, scratch);
      const weight = new Float32Array(memory.buffer, scratch, inputs);
      for (let r = 0; r < rows; r++)
        want[r * outputs + o] = weight.reduce((sum, w, i) => sum + w * activations[r * inputs + i], 0);
    }
    const same = (first: number, count: number): boolean =>
      new Float32Array(memory.buffer, out, count).every((y, i) => y === want[first + i]);
    for (let r = 0; r < rows; r++) {
      const [q, beside] = [codes + r * width, meta + (r * inputs) / 2];
      kernels.rowProduct(kind, panel, inputs / 32, q, beside, out, outputs, 0, 0, 1, scratch);
      if (!same(r * outputs, outputs)) return false;
    }
    for (let r = 0; r < rows; r++) kernels.quantise(x + 4 * r * inputs, inputs, codes + 4 * r, meta + 16 * r, 4);
    kernels.rowsProduct(
      ...([kind, panel, inputs / 32, codes, meta, rows, out, 4 * outputs, outputs, 0, 0, 1, scratch] as const),
    );
    return same(0, rows * outputs);
  });
}

/** Stored rows and activations of whole numbers up to 127, so that scales are 1 and every sum is exact. */
function place(memory: WebAssembly.Memory, { bytes, codes: at, most }: Omit<(typeof stored)[number], 'kind'>): void {
  const weights = new Uint8Array(memory.buffer, source, (outputs * inputs * bytes) / 32),
    activations = new Float32Array(memory.buffer, x, rows * inputs);
  for (let from = 0, block = 0; from < weights.length; from += bytes, block++) {
    weights.set([one & 255, one >> 8], from);
    // of all ones, all zeros, the least signed byte, and anything
    for (let i = at; i < bytes; i++) weights[from + i] = [most, 0, 128, 127, (37 * i + 11 * block) & most][block % 5];
  }
  for (let i = 0; i < activations.length; i++)
    activations[i] = [127, -127, i % 2 === 0 ? 127 : -127, ((i * 53) % 255) - 127][Math.floor(i / inputs)];
  for (let i = 0; i < activations.length; i += 32) activations[i] = 127;
}

/** Blocks and rows of a product long enough to be timed. */
const long = { blocks: 16, rows: 32 };

/**
 * Returns the module that runs a product of many rows fastest. Modules take turns, since they are optimised only after
 * a while, until none has become faster for several turns.
 */
export function fastest(modules: readonly FastModule[]): FastModule {
  const [weights, acts, metas, results, work] = [1, 2, 4, 6, 8].map((page) => 65_536 * page);
  const racers = modules.map((fast) => {
    const memory = new WebAssembly.Memory({ initial: 16, maximum: 16, shared: true });
    return { fast, kernels: instantiate(fast, memory), best: Infinity };
  });
  for (let turn = 0, calm = 0; turn < 40 && calm < 4; turn++, calm++)
    for (const racer of racers)
      for (const started = performance.now(); performance.now() - started < 3; ) {
        const from = performance.now();
        racer.kernels.rowsProduct(
          ...([
            kinds.Q4_0,
            weights,
            long.blocks,
            acts,
            metas,
            long.rows,
            results,
            4 * outputs,
            outputs,
            0,
            0,
            1,
            work,
          ] as const),
        );
        const took = performance.now() - from;
        if (took < 0.9 * racer.best) calm = 0;
        racer.best = Math.min(racer.best, took);
      }
  return racers.reduce((a, b) => (b.best < a.best ? b : a)).fast;
}
