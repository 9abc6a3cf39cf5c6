import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import {
  deviceForms,
  rowFunctions,
  rowType,
  STORE_THREADS,
  storeFunctions,
  storesRows,
  type DeviceForm,
} from '../wgsl/stored-rows.ts';

/**
 * One workgroup: one of m new slots of one of G heads. `k` and `v` `[G, m, d]` are stored after that head's `lengths
 * [G]` slots as rows of keys and values `[G, capacity]`; with them the slot's position, `added [m]`, in `positions [G,
 * capacity]`. `next [G]` receives the new lengths. Records, of
 * both, are in `keys`.
 */
export const append: (
  form: DeviceForm,
  d: number,
) => GpuKernel<'k' | 'v' | 'added' | 'lengths' | 'keys' | 'values' | 'positions' | 'next', 'm' | 'capacity'> = variants(
  (form, d) => {
    const { keys, values } = deviceForms[form],
      store = (from: string, to: string): string => /* wgsl */ `
  for (var c = lane; c < ${d}u; c += ${STORE_THREADS}u) { vector[c] = ${from}[group * ${d}u + c]; }
  workgroupBarrier();
  ${to}_store(slot, lane);`;
    return {
      id: `model:append:${form}:${d}`,
      buffers: {
        k: 'f32',
        v: 'f32',
        added: 'u32',
        lengths: 'u32',
        keys: [rowType(keys), 'write'],
        ...(form !== 'records' && { values: [rowType(values), 'write'] as const }),
        positions: ['u32', 'write'],
        next: ['u32', 'write'],
      },
      scalars: { m: 'u32', capacity: 'u32' },
      threads: STORE_THREADS,
      per: 'group',
      source: /* wgsl */ `
${rowFunctions(keys, values)}${storeFunctions(keys, values)}
var<workgroup> vector: array<f32, ${d}>;
${storesRows({ name: 'keys', form: keys, d })}
${storesRows({ name: 'values', buffer: form === 'records' ? 'keys' : 'values', form: values, d })}
fn run(group: u32, lane: u32) {
  let i = group % params.m;
  let g = group / params.m;
  let slot = g * params.capacity + lengths[g] + i;
  ${store('k', 'keys')}
  workgroupBarrier();
  ${store('v', 'values')}
  if (lane == 0u) {
    positions[slot] = added[i];
    if (i == 0u) { next[g] = lengths[g] + params.m; }
  }
}`,
    };
  },
);
