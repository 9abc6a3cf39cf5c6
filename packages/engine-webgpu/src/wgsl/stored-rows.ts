import { rowBytes } from '@kv/engine';
import type { RowForm } from '@kv/engine';
import { HALF, TO_HALF } from './halves.ts';

/** Threads of a workgroup that stores rows. */
export const STORE_THREADS = 64;

/**
 * Rows of keys or values in a buffer, one for each slot of each head. A row is whole words: its codes, then its scales,
 * with the bits that the host's `encodeRows` gives them.
 */
export interface StoredRows {
  /** The buffer. */
  readonly name: string;
  readonly form: RowForm;
  /** Numbers of a row. */
  readonly d: number;
}

/** Returns the words of a row of `d` numbers. */
export function rowWords(form: RowForm, d: number): number {
  const { codes, scales } = rowBytes(form, d);
  return (codes + scales) / 4;
}

/** Returns the element type of a buffer of rows. */
export const rowType = (form: RowForm): 'f32' | 'u32' => (form === 'f32' ? 'f32' : 'u32');

/** Numbers of a word of codes. */
export const WORD_NUMBERS: Readonly<Record<RowForm, number>> = { f32: 1, f16: 2, q8: 4, q4: 8 };

/** Returns the channel of number i of a word of codes, in WGSL. */
export const channelOf = (form: RowForm, word: string, i: number): string =>
  form === 'q4'
    ? // a byte holds a channel and the one 16 later in its block
      `(${word} / 4u * 32u + ${word} % 4u * 4u + ${(i % 4) + 16 * Math.floor(i / 4)}u)`
    : `(${word} * ${WORD_NUMBERS[form]}u + ${i}u)`;
/** First bit of number i of a word of q4. */
const nibble = (i: number): number => 8 * (i % 4) + 4 * Math.floor(i / 4);

/** Returns text for each number of a word of codes. */
export const eachNumber = (form: RowForm, text: (i: number) => string): string =>
  Array.from({ length: WORD_NUMBERS[form] }, (_, i) => text(i)).join(' ');

/** Declares `NAME_word(row, word)`, which returns the numbers of a word of codes of a row. */
export function readsRows({ name, form, d }: StoredRows): string {
  const each = WORD_NUMBERS[form],
    scales = `${name}[at + ${d / each}u${form === 'q4' ? ' + word / 4u' : ''}]`,
    all = (number: (i: number) => string): string =>
      `array<f32, ${each}>(${Array.from({ length: each }, (_, i) => number(i)).join(', ')})`;
  const [scale, numbers] = {
    f32: ['', all(() => 'codes')],
    f16: ['let pair = unpack2x16float(codes);', all((i) => `pair.${'xy'[i]}`)],
    q8: [
      `let scale = bitcast<f32>(${scales});`,
      all((i) => `f32(extractBits(bitcast<i32>(codes), ${8 * i}u, 8u)) * scale`),
    ],
    q4: [`let range = halves(${scales});`, all((i) => `f32((codes >> ${nibble(i)}u) & 15u) * range.x + range.y`)],
  }[form];
  return /* wgsl */ `
fn ${name}_word(row: u32, word: u32) -> array<f32, ${each}> {
  let at = row * ${rowWords(form, d)}u;
  let codes = ${name}[at + word];
  ${scale}
  return ${numbers};
}`;
}

/** Declares what the functions of rows of these forms call. */
export const rowFunctions = (...forms: readonly RowForm[]): string => (forms.includes('q4') ? HALF : '');

/** Where rows go in workgroup memory. */
interface Stage {
  /** An array: number c of row `key` goes to `key * stride + c`. */
  readonly into: string;
  readonly stride: number;
  /** Rows, and threads that share them. */
  readonly rows: number;
  readonly threads: number;
  /** The row of the buffer, a function of `key`, and whether there is one: numbers of others are 0. */
  readonly row: string;
  readonly exists: string;
  /** The part of every row that is staged: number `index` of those of `channels` channels. @defaultValue the whole row */
  readonly part?: { readonly index: string; readonly channels: number };
}

/** Statements by which the threads of a workgroup put numbers of some rows into workgroup memory. */
export function stageRows(
  { name, form, d }: StoredRows,
  { into, stride, rows, threads, row, exists, part }: Stage,
): string {
  const each = WORD_NUMBERS[form],
    words = (part?.channels ?? d) / each;
  return /* wgsl */ `for (var e = lane; e < ${rows * words}u; e += ${threads}u) {
      let key = e / ${words}u;
      let own = e % ${words}u;
      let word = own${part ? ` + ${part.index} * ${words}u` : ''};
      var numbers = array<f32, ${each}>();
      if (${exists}${part && d % part.channels > 0 ? ` && word < ${d / each}u` : ''}) { numbers = ${name}_word(${row}, word); }
      ${eachNumber(form, (i) => `${into}[key * ${stride}u + ${channelOf(form, 'own', i)}] = numbers[${i}];`)}
    }`;
}

/**
 * Declares `NAME_store(row, lane)`, by which a workgroup of `STORE_THREADS` stores the numbers `vector`, which are in
 * workgroup memory, as a row: in the arithmetic of the host's `encodeRows`.
 */
export function storesRows({ name, form, d }: StoredRows): string {
  const words = d / WORD_NUMBERS[form],
    byWord = (statements: string): string => /* wgsl */ `
  for (var w = lane; w < ${words}u; w += ${STORE_THREADS}u) {${statements}
  }`;
  const body = {
    f32: byWord(`${name}[at + w] = vector[w];`),
    f16: byWord(`${name}[at + w] = to_half(vector[2u * w]) | (to_half(vector[2u * w + 1u]) << 16u);`),
    q8: /* wgsl */ `
  var top = 0.0;
  for (var c = 0u; c < ${d}u; c++) { top = max(top, abs(vector[c])); }
  let inverse = 127.0 / max(top, 1e-30);${byWord(/* wgsl */ `
    var codes = 0u;
    for (var i = 0u; i < 4u; i++) { codes |= (u32(i32(round(vector[4u * w + i] * inverse))) & 255u) << (8u * i); }
    ${name}[at + w] = codes;`)}
  if (lane == 0u) { ${name}[at + ${words}u] = bitcast<u32>(top / 127.0); }`,
    q4: byWord(/* wgsl */ `
    let block = w / 4u * 32u;
    var low = vector[block];
    var high = low;
    for (var c = block; c < block + 32u; c++) { low = min(low, vector[c]); high = max(high, vector[c]); }
    let minimum = to_half(low);
    let base = half(minimum);
    let scale = to_half((high - base) / 15.0);
    let inverse = select(1.0 / half(scale), 0.0, half(scale) == 0.0);
    var codes = 0u;
    for (var i = 0u; i < 8u; i++) {
      let x = vector[block + w % 4u * 4u + i % 4u + i / 4u * 16u];
      codes |= u32(clamp(round((x - base) * inverse), 0.0, 15.0)) << (8u * (i % 4u) + 4u * (i / 4u));
    }
    ${name}[at + w] = codes;
    if (w % 4u == 0u) { ${name}[at + ${words}u + w / 4u] = scale | (minimum << 16u); }`),
  }[form];
  return /* wgsl */ `
fn ${name}_store(row: u32, lane: u32) {
  let at = row * ${rowWords(form, d)}u;${body}
}`;
}

/** Declares what storing rows of these forms calls, apart from what `rowFunctions` declares. */
export const storeFunctions = (...forms: readonly RowForm[]): string =>
  forms.some((form) => form === 'f16' || form === 'q4') ? TO_HALF : '';
