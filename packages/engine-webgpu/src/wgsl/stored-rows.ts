import { LEVELS } from '@kv/core';
import { cacheForms, fitsHeads, LEVEL_SHIFT, rowBytes, storedForms } from '@kv/engine';
import type { CachePart, RowForm, StorageForm } from '@kv/engine';
import { HALF, TO_HALF } from './halves.ts';

/** Threads of a workgroup that stores rows. */
export const STORE_THREADS = 64;

/**
 * How rows of keys or values are stored: all in one form, or as parts of records, each in the form of its level. Rows of
 * records are found by a table at the start of the buffer: for each row a word, its level in the upper 3 bits, below it
 * the word where its record begins. A record is the row of a key, then the row of a value.
 */
export type DeviceRowForm = RowForm | 'record-keys' | 'record-values';

/** How a cache is stored: a form that the host's storage has, or `records`, where slots have levels of their own. */
export type DeviceForm = StorageForm | 'records';

/** The forms of keys and of values. */
export interface KeyValueForms {
  readonly keys: DeviceRowForm;
  readonly values: DeviceRowForm;
}
export const deviceForms: Readonly<Record<DeviceForm, KeyValueForms>> = {
  ...storedForms,
  records: { keys: 'record-keys', values: 'record-values' },
};

/**
 * Rows of keys or values in a buffer, one for each slot of each head. A row is whole words: its codes, then its scales,
 * with the bits that the host's `encodeRows` gives them.
 */
export interface StoredRows {
  /** What functions are named after. */
  readonly name: string;
  /** The buffer. @defaultValue `name` */
  readonly buffer?: string;
  readonly form: DeviceRowForm;
  /** Numbers of a row. */
  readonly d: number;
}

/** Returns the words of a row of `d` numbers. */
export function rowWords(form: RowForm, d: number): number {
  const { codes, scales } = rowBytes(form, d);
  return (codes + scales) / 4;
}

/** Returns the part of a slot that rows of records hold; undefined for rows of one form. */
const recordPart = (form: DeviceRowForm): CachePart | undefined =>
  form === 'record-keys' ? 'keys' : form === 'record-values' ? 'values' : undefined;

/** Returns the element type of a buffer of rows. */
export const rowType = (form: DeviceRowForm): 'f32' | 'u32' => (form === 'f32' ? 'f32' : 'u32');

/** Numbers that are read together: those of a word of codes, or four consecutive ones of a record. */
export const WORD_NUMBERS: Readonly<Record<DeviceRowForm, number>> = {
  ...{ f32: 1, f16: 2, q8: 4, q4: 8 },
  ...{ 'record-keys': 4, 'record-values': 4 },
};

/** Returns the channel of number i of a word, in WGSL. */
export const channelOf = (form: DeviceRowForm, word: string, i: number): string =>
  form === 'q4'
    ? // a byte holds a channel and the one 16 later in its block
      `(${word} / 4u * 32u + ${word} % 4u * 4u + ${(i % 4) + 16 * Math.floor(i / 4)}u)`
    : `(${word} * ${WORD_NUMBERS[form]}u + ${i}u)`;
/** First bit of number i of a word of q4. */
const nibble = (i: number): number => 8 * (i % 4) + 4 * Math.floor(i / 4);

/** Returns text for each number of a word. */
export const eachNumber = (form: DeviceRowForm, text: (i: number) => string): string =>
  Array.from({ length: WORD_NUMBERS[form] }, (_, i) => text(i)).join(' ');

const listOf = (count: number, number: (i: number) => string): string =>
  `array<f32, ${count}>(${Array.from({ length: count }, (_, i) => number(i)).join(', ')})`;

/** Declares `NAME_word(row, word)`, which returns the numbers of a word of a row. */
export function readsRows({ name, buffer = name, form, d }: StoredRows): string {
  if (form === 'record-keys' || form === 'record-values') return readsRecords({ name, buffer, form, d });
  const each = WORD_NUMBERS[form],
    scales = `${buffer}[at + ${d / each}u${form === 'q4' ? ' + word / 4u' : ''}]`,
    all = (number: (i: number) => string): string => listOf(each, number);
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
  let codes = ${buffer}[at + word];
  ${scale}
  return ${numbers};
}`;
}

/** The level of an entry of a table, and where its record begins, in WGSL. */
export const entryLevel = (entry: string): string => `(${entry} >> ${LEVEL_SHIFT}u)`;
export const entryPlace = (entry: string): string => `(${entry} & ${2 ** LEVEL_SHIFT - 1}u)`;

/** Levels whose rows have one form, and the words of a record before these rows. */
interface LevelRows {
  readonly form: RowForm;
  readonly before: number;
  readonly levels: readonly number[];
}

/** Returns the rows of keys or values of all levels that heads of `d` numbers can have. */
function rowsOfLevels(part: CachePart, d: number): LevelRows[] {
  const rows = new Map<string, LevelRows>();
  for (const [level, name] of LEVELS.entries()) {
    if (!fitsHeads(name, [d])) continue;
    const { keys, values } = cacheForms[name],
      form = part === 'keys' ? keys : values,
      before = part === 'keys' ? 0 : rowWords(keys, d),
      known = rows.get(`${form} ${before}`)?.levels ?? [];
    rows.set(`${form} ${before}`, { form, before, levels: [...known, level] });
  }
  return [...rows.values()];
}

/** Returns a statement for the rows of each level, where `entry` is a word of the table; `at` is where they begin. */
const byLevel = (part: CachePart, d: number, statements: (form: RowForm) => string): string => /* wgsl */ `
  switch ${entryLevel('entry')} {
    ${rowsOfLevels(part, d)
      .map(
        ({ form, before, levels }) => /* wgsl */ `case ${levels.map((level) => `${level}u`).join(', ')}: {
      let at = ${entryPlace('entry')} + ${before}u;
      ${statements(form)}
    }`,
      )
      .join('\n    ')}
    default: {}
  }`;

/** Declares `NAME_word(row, word)` for rows of records: the numbers from channel `4 * word` on. */
function readsRecords({ name, buffer, form, d }: Required<StoredRows>): string {
  const four = (number: (i: number) => string): string => `return ${listOf(4, number)};`;
  const read: Readonly<Record<RowForm, string>> = {
    f32: four((i) => `bitcast<f32>(${buffer}[at + 4u * word + ${i}u])`),
    f16: `let a = unpack2x16float(${buffer}[at + 2u * word]);
      let b = unpack2x16float(${buffer}[at + 2u * word + 1u]);
      ${four((i) => `${'aabb'[i]}.${'xyxy'[i]}`)}`,
    q8: `let codes = bitcast<i32>(${buffer}[at + word]);
      let scale = bitcast<f32>(${buffer}[at + ${d / 4}u]);
      ${four((i) => `f32(extractBits(codes, ${8 * i}u, 8u)) * scale`)}`,
    // the second 16 channels of a block are in the upper halves of its bytes
    q4: `let codes = ${buffer}[at + word / 8u * 4u + word % 4u] >> (word % 8u / 4u * 4u);
      let range = halves(${buffer}[at + ${d / 8}u + word / 8u]);
      ${four((i) => `f32((codes >> ${8 * i}u) & 15u) * range.x + range.y`)}`,
  };
  return /* wgsl */ `
fn ${name}_word(row: u32, word: u32) -> array<f32, 4> {
  let entry = ${buffer}[row];
  ${byLevel(form === 'record-keys' ? 'keys' : 'values', d, (of) => read[of])}
  return array<f32, 4>();
}`;
}

/** Declares what the functions of rows of these forms call. */
export const rowFunctions = (...forms: readonly DeviceRowForm[]): string =>
  forms.some((form) => form === 'q4' || recordPart(form)) ? HALF : '';

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
 * workgroup memory, as a row: in the arithmetic of the host's `encodeRows`. For rows of records also
 * `NAME_store_at(entry, lane)`, which stores them where a word of a table says.
 */
export function storesRows({ name, buffer = name, form, d }: StoredRows): string {
  if (form === 'record-keys' || form === 'record-values')
    return /* wgsl */ `
fn ${name}_store_at(entry: u32, lane: u32) {
  ${byLevel(form === 'record-keys' ? 'keys' : 'values', d, (of) => storesRow(of, buffer, d))}
}
fn ${name}_store(row: u32, lane: u32) { ${name}_store_at(${buffer}[row], lane); }`;
  return /* wgsl */ `
fn ${name}_store(row: u32, lane: u32) {
  let at = row * ${rowWords(form, d)}u;${storesRow(form, buffer, d, form === 'f32')}
}`;
}

/**
 * Statements that store `vector` as a row that begins at `at`.
 * @param numbers whether elements of the buffer are f32
 */
function storesRow(form: RowForm, buffer: string, d: number, numbers = false): string {
  const words = d / WORD_NUMBERS[form],
    byWord = (statements: string): string => /* wgsl */ `
  for (var w = lane; w < ${words}u; w += ${STORE_THREADS}u) {${statements}
  }`;
  return {
    f32: byWord(`${buffer}[at + w] = ${numbers ? 'vector[w]' : 'bitcast<u32>(vector[w])'};`),
    f16: byWord(`${buffer}[at + w] = to_half(vector[2u * w]) | (to_half(vector[2u * w + 1u]) << 16u);`),
    q8: /* wgsl */ `
  var top = 0.0;
  for (var c = 0u; c < ${d}u; c++) { top = max(top, abs(vector[c])); }
  let inverse = 127.0 / max(top, 1e-30);${byWord(/* wgsl */ `
    var codes = 0u;
    for (var i = 0u; i < 4u; i++) { codes |= (u32(i32(round(vector[4u * w + i] * inverse))) & 255u) << (8u * i); }
    ${buffer}[at + w] = codes;`)}
  if (lane == 0u) { ${buffer}[at + ${words}u] = bitcast<u32>(top / 127.0); }`,
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
    ${buffer}[at + w] = codes;
    if (w % 4u == 0u) { ${buffer}[at + ${words}u + w / 4u] = scale | (minimum << 16u); }`),
  }[form];
}

/** Declares what storing rows of these forms calls, apart from what `rowFunctions` declares. */
export const storeFunctions = (...forms: readonly DeviceRowForm[]): string =>
  forms.some((form) => form === 'f16' || form === 'q4' || recordPart(form)) ? TO_HALF : '';

/** Returns the words of the record of each level of heads of `d` numbers, in WGSL. */
export const recordWords = (d: number): string =>
  `array<u32, ${LEVELS.length}>(${LEVELS.map((level) => {
    const { keys, values } = cacheForms[level];
    return `${Math.ceil(rowWords(keys, d) + rowWords(values, d))}u`;
  }).join(', ')})`;
