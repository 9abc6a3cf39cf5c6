import type { RowForm } from '@kv/engine';
import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import {
  channelOf,
  eachNumber,
  readsRows,
  rowFunctions,
  rowType,
  STORE_THREADS,
  stageRows,
  storeFunctions,
  storesRows,
  WORD_NUMBERS,
  type DeviceRowForm,
} from '../wgsl/stored-rows.ts';

/** One element: one word of one of `slots` slots of a head; of `rows [G, capacity]` to `out [G, slots, d]`. */
export const decode: (form: DeviceRowForm, d: number) => GpuKernel<'rows' | 'out', 'slots' | 'capacity'> = variants(
  (form, d) => ({
    id: `model:decode:${form}:${d}`,
    buffers: { rows: rowType(form), out: ['f32', 'write'] },
    scalars: { slots: 'u32', capacity: 'u32' },
    source: /* wgsl */ `
${rowFunctions(form)}
${readsRows({ name: 'rows', form, d })}
fn run(index: u32) {
  let word = index % ${d / WORD_NUMBERS[form]}u;
  let row = index / ${d / WORD_NUMBERS[form]}u;
  let numbers = rows_word(row / params.slots * params.capacity + row % params.slots, word);
  ${eachNumber(form, (i) => `out[row * ${d}u + ${channelOf(form, 'word', i)}] = numbers[${i}];`)}
}`,
  }),
);

/**
 * One workgroup: one of the first `slots` slots of a head, whose row of `rows [G, capacity]` becomes that of `x [G,
 * slots, d]` if a number of it differs: no other row is rounded once more.
 */
export const replace: (form: DeviceRowForm, d: number) => GpuKernel<'x' | 'rows', 'slots' | 'capacity'> = variants(
  (form, d) => ({
    id: `model:replace:${form}:${d}`,
    buffers: { x: 'f32', rows: [rowType(form), 'write'] },
    scalars: { slots: 'u32', capacity: 'u32' },
    threads: STORE_THREADS,
    per: 'group',
    source: /* wgsl */ `
${rowFunctions(form)}${storeFunctions(form)}
var<workgroup> vector: array<f32, ${d}>;
var<workgroup> changes: atomic<u32>;
${readsRows({ name: 'rows', form, d })}
${storesRows({ name: 'rows', form, d })}
fn run(group: u32, lane: u32) {
  let row = group / params.slots * params.capacity + group % params.slots;
  if (lane == 0u) { atomicStore(&changes, 0u); }
  for (var c = lane; c < ${d}u; c += ${STORE_THREADS}u) { vector[c] = x[group * ${d}u + c]; }
  workgroupBarrier();
  for (var word = lane; word < ${d / WORD_NUMBERS[form]}u; word += ${STORE_THREADS}u) {
    let numbers = rows_word(row, word);
    ${eachNumber(form, (i) => `if (numbers[${i}] != vector[${channelOf(form, 'word', i)}]) { atomicAdd(&changes, 1u); }`)}
  }
  storageBarrier();
  workgroupBarrier();
  if (atomicLoad(&changes) > 0u) { rows_store(row, lane); }
}`,
  }),
);

/**
 * One workgroup: one of the first `slots` slots of a head, whose row of `rows [G, capacity]` is stored in another form,
 * in `out [G, capacity]`.
 */
export const convert: (from: RowForm, to: RowForm, d: number) => GpuKernel<'rows' | 'out', 'slots' | 'capacity'> =
  variants((from, to, d) => ({
    id: `model:convert:${from}:${to}:${d}`,
    buffers: { rows: rowType(from), out: [rowType(to), 'write'] },
    scalars: { slots: 'u32', capacity: 'u32' },
    threads: STORE_THREADS,
    per: 'group',
    source: /* wgsl */ `
${rowFunctions(from, to)}${storeFunctions(to)}
var<workgroup> vector: array<f32, ${d}>;
${readsRows({ name: 'rows', form: from, d })}
${storesRows({ name: 'out', form: to, d })}
fn run(group: u32, lane: u32) {
  let row = group / params.slots * params.capacity + group % params.slots;
  ${stageRows({ name: 'rows', form: from, d }, { into: 'vector', stride: d, rows: 1, threads: STORE_THREADS, row: 'row', exists: 'true' })}
  workgroupBarrier();
  out_store(row, lane);
}`,
  }));

/**
 * One workgroup: one of `slots` slots of a row of `x [rows, size]`, whose numbers are stored in a form: pairs of
 * channels (i, i + half) are rotated from one position to another, whose rows of angles are the two entries of `turns
 * [rows, slots, 2]`. cosines and sines `[positions, half]`; only the direction of a factor in them is used. Slots that
 * keep their position keep their bits.
 */
export const rotate: (
  form: DeviceRowForm,
  d: number,
) => GpuKernel<'turns' | 'cosines' | 'sines' | 'x', 'slots' | 'size' | 'half'> = variants((form, d) => ({
  id: `model:rotate:${form}:${d}`,
  buffers: { turns: 'u32', cosines: 'f32', sines: 'f32', x: [rowType(form), 'write'] },
  scalars: { slots: 'u32', size: 'u32', half: 'u32' },
  threads: STORE_THREADS,
  per: 'group',
  source: /* wgsl */ `
${rowFunctions(form)}${storeFunctions(form)}
var<workgroup> vector: array<f32, ${d}>;
${readsRows({ name: 'x', form, d })}
${storesRows({ name: 'x', form, d })}
fn run(group: u32, lane: u32) {
  let before = turns[2u * group];
  let after = turns[2u * group + 1u];
  if (before == after) { return; }
  let row = group / params.slots * params.size + group % params.slots;
  ${stageRows({ name: 'x', form, d }, { into: 'vector', stride: d, rows: 1, threads: STORE_THREADS, row: 'row', exists: 'true' })}
  storageBarrier();
  workgroupBarrier();
  for (var i = lane; i < params.half; i += ${STORE_THREADS}u) {
    let c0 = cosines[before * params.half + i];
    let s0 = sines[before * params.half + i];
    let c1 = cosines[after * params.half + i];
    let s1 = sines[after * params.half + i];
    let scale = sqrt((c0 * c0 + s0 * s0) * (c1 * c1 + s1 * s1));
    let c = (c1 * c0 + s1 * s0) / scale;
    let s = (s1 * c0 - c1 * s0) / scale;
    let a = vector[i];
    let b = vector[i + params.half];
    vector[i] = a * c - b * s;
    vector[i + params.half] = b * c + a * s;
  }
  workgroupBarrier();
  x_store(row, lane);
}`,
}));
