import { THREADS } from '../kernel.ts';
import type { GpuKernel } from '../kernel.ts';
import { ORDERED } from './first-bad.wgsl.ts';

/** Pairs that one workgroup sorts in its own memory: two per thread. */
export const LOCAL = 512;

/**
 * Bitonic sort of (key, place) pairs, `size` (a power of two) per segment: highest score first, equal ones by slot,
 * then row; invalid slots after them and padding last. Places are unique, so the order is total and the sort exact.
 */
const PAIRS = /* wgsl */ `
fn after(ka: u32, pa: u32, kb: u32, pb: u32) -> bool { return ka > kb || (ka == kb && pa > pb); }`;

/** Writes the pairs of `segments` rows, or of all rows as one segment, in which place = slot * rows + row. */
export const rankPairs: GpuKernel = {
  id: 'rank-pairs',
  buffers: { x: { view: 'bits', ragged: true }, keys: ['u32', 'write'], places: ['u32', 'write'] },
  scalars: { size: 'u32', joint: 'u32' },
  source: /* wgsl */ `
${ORDERED}
fn run(index: u32) {
  let within = index % params.size;
  let row = select(index / params.size, within % params.rows, params.joint == 1u);
  let slot = select(within, within / params.rows, params.joint == 1u);
  var key = 0xffffffffu;
  if (slot < params.slots && slot < x_valid(row)) { key = min(~ordered(x_at(row, slot, 0u)), 0xfffffffeu); }
  keys[index] = key;
  places[index] = within;
}`,
};

/** One exchange of the network: pairs `gap` apart in blocks of `block`. */
export const rankStep: GpuKernel = {
  id: 'rank-step',
  buffers: { keys: ['u32', 'write'], places: ['u32', 'write'] },
  scalars: { size: 'u32', block: 'u32', gap: 'u32' },
  source: /* wgsl */ `
${PAIRS}
fn run(index: u32) {
  let low = params.gap - 1u;
  let a = ((index & ~low) << 1u) | (index & low); // all of these are powers of two
  let b = a + params.gap;
  let ka = keys[a]; let kb = keys[b]; let pa = places[a]; let pb = places[b];
  if (after(ka, pa, kb, pb) == ((a & (params.size - 1u) & params.block) == 0u)) { keys[a] = kb; keys[b] = ka; places[a] = pb; places[b] = pa; }
}`,
};

/** All exchanges within 512 pairs: for every block from `first` to `last`, gaps from at most 256 down to 1. */
export const rankLocal: GpuKernel = {
  id: 'rank-local',
  buffers: { keys: ['u32', 'write'], places: ['u32', 'write'] },
  scalars: { size: 'u32', first: 'u32', last: 'u32' },
  per: 'group',
  operations({ count, first, last }) {
    let exchanges = 0;
    for (let block = first; block <= last; block *= 2) exchanges += Math.log2(Math.min(block, LOCAL));
    return (exchanges * count * LOCAL) / 2;
  },
  source: /* wgsl */ `
${PAIRS}
var<workgroup> near_keys: array<u32, ${LOCAL}>;
var<workgroup> near_places: array<u32, ${LOCAL}>;
fn run(group: u32, lane: u32) {
  let from_ = group * ${LOCAL}u;
  for (var i = lane; i < ${LOCAL}u; i += ${THREADS}u) { near_keys[i] = keys[from_ + i]; near_places[i] = places[from_ + i]; }
  for (var block = params.first; block <= params.last; block *= 2u) {
    for (var gap = min(block / 2u, ${LOCAL / 2}u); gap > 0u; gap /= 2u) {
      workgroupBarrier();
      let low = gap - 1u;
      let a = ((lane & ~low) << 1u) | (lane & low);
      let b = a + gap;
      let ka = near_keys[a]; let kb = near_keys[b]; let pa = near_places[a]; let pb = near_places[b];
      if (after(ka, pa, kb, pb) == (((from_ + a) & (params.size - 1u) & block) == 0u)) { near_keys[a] = kb; near_keys[b] = ka; near_places[a] = pb; near_places[b] = pa; }
    }
  }
  workgroupBarrier();
  for (var i = lane; i < ${LOCAL}u; i += ${THREADS}u) { keys[from_ + i] = near_keys[i]; places[from_ + i] = near_places[i]; }
}`,
};

/** Scatters each place in the order to its slot; 0 for slots that are not valid. */
export const rankPlaces: GpuKernel = {
  id: 'rank-places',
  buffers: { keys: 'u32', places: 'u32', output: ['f32', 'write'] },
  scalars: { rows: 'u32', slots: 'u32', size: 'u32', joint: 'u32' },
  source: /* wgsl */ `
fn run(index: u32) {
  let within = places[index];
  let row = select(index / params.size, within % params.rows, params.joint == 1u);
  let slot = select(within, within / params.rows, params.joint == 1u);
  if (slot < params.slots) { output[row * params.slots + slot] = select(f32(index % params.size), 0.0, keys[index] == 0xffffffffu); }
}`,
};
