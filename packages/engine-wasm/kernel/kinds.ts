// @ts-nocheck: AssemblyScript, not TypeScript
// The kinds of weights, by the names of ggml, and what follows from a kind's number.

export const F32 = 0, F16 = 1, BF16 = 2, Q8_0 = 3, Q4_0 = 4, Q4_1 = 5, Q5_0 = 6, Q5_1 = 7, Q4_K = 8, Q5_K = 9, Q6_K = 10;

/** Bytes of a block of 32 inputs of 16 outputs, with what stands before eight blocks of a K-quant in `headBytes`. */
export function blockBytes(kind: i32): usize {
  switch (kind) {
    case Q8_0: return 544;
    case Q4_0: return 288;
    case Q4_1: return 320;
    case Q5_0: return 352;
    case Q5_1: return 384;
    case Q4_K: return 288;
    case Q5_K: return 352;
    default: return 416;
  }
}

/** Bytes of a panel of so many inputs. */
export function panelBytes(kind: i32, inputs: i32): usize {
  const n = <usize>inputs;
  if (kind == F32) return n * 64;
  if (kind <= BF16) return n * 32;
  return (n / 32) * blockBytes(kind) + (kind >= Q4_K ? (n / 256) * (kind == Q6_K ? 64 : 128) : 0);
}
