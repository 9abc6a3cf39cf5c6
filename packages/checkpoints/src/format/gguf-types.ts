import { tensorTypes, type TensorLayout } from './tensor-types.ts';

/** A ggml type by the number that a GGUF file gives: its name, and its layout if known. */
export interface GgmlType {
  readonly name: string;
  readonly layout?: TensorLayout;
}

/**
 * Types that cannot be read, listed for their size in a file: name, numbers and bytes of
 * a block (ggml.h, ggml-common.h).
 */
const others: Readonly<Record<number, readonly [string, number, number]>> = {
  9: ['Q8_1', 32, 36],
  10: ['Q2_K', 256, 84],
  11: ['Q3_K', 256, 110],
  15: ['Q8_K', 256, 292],
  16: ['IQ2_XXS', 256, 66],
  17: ['IQ2_XS', 256, 74],
  18: ['IQ3_XXS', 256, 98],
  19: ['IQ1_S', 256, 50],
  21: ['IQ3_S', 256, 110],
  22: ['IQ2_S', 256, 82],
  23: ['IQ4_XS', 256, 136],
  24: ['I8', 1, 1],
  25: ['I16', 1, 2],
  26: ['I32', 1, 4],
  27: ['I64', 1, 8],
  28: ['F64', 1, 8],
  29: ['IQ1_M', 256, 56],
  34: ['TQ1_0', 256, 54],
  35: ['TQ2_0', 256, 66],
  40: ['NVFP4', 64, 36],
  41: ['Q1_0', 128, 18],
};

const read = {
  0: 'F32',
  1: 'F16',
  2: 'Q4_0',
  3: 'Q4_1',
  6: 'Q5_0',
  7: 'Q5_1',
  8: 'Q8_0',
  12: 'Q4_K',
  13: 'Q5_K',
  14: 'Q6_K',
  20: 'IQ4_NL',
  30: 'BF16',
  39: 'MXFP4',
} as const;

/** Returns the type of a number. Numbers that ggml never assigned, or has retired, have no layout. */
export function ggmlType(id: number): GgmlType {
  const name = Object.hasOwn(read, id) ? read[id as keyof typeof read] : undefined;
  if (name !== undefined) return { name, layout: tensorTypes[name] };
  const other = others[id];
  return other === undefined
    ? { name: `ggml type ${id}` }
    : { name: other[0], layout: { numbers: other[1], bytes: other[2] } };
}
