import { levelOf, storedForms } from '@kv/engine';
import type { StorageForm } from '@kv/engine';
import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import {
  deviceForms,
  entryLevel,
  entryPlace,
  readsRows,
  recordWords,
  rowFunctions,
  rowType,
  rowWords,
  STORE_THREADS,
  stageRows,
  storeFunctions,
  storesRows,
  type DeviceForm,
} from '../wgsl/stored-rows.ts';

/** A slot that nothing moves to. */
export const NO_SLOT = 0xffff_ffff;

/**
 * One workgroup: one place for a slot, whose word of a table, `entries [places]`, becomes that of `to`. Slot
 * `sources [places]`, if it is one, moves there: its position to `moved [places]`, its key and value to the record of
 * that word. What becomes coarser is decoded and stored again, in the arithmetic of the host; all else keeps its bits.
 */
export const moveRecords: (
  from: DeviceForm,
  d: number,
) => GpuKernel<'sources' | 'entries' | 'keys' | 'values' | 'positions' | 'to' | 'moved', never> = variants(
  (from, d) => {
    const records = from === 'records',
      { keys, values } = deviceForms[from],
      rows = [
        { name: 'keys', form: keys, d },
        { name: 'values', buffer: records ? 'keys' : 'values', form: values, d },
      ] as const;
    const copy = (source: string, size: string, at: string): string => /* wgsl */ `
    for (var w = lane; w < ${size}; w += ${STORE_THREADS}u) { to[${at} + w] = bitcast<u32>(${source} + w]); }`;
    const copyRows = (form: StorageForm): string => {
      const [key, value] = [rowWords(storedForms[form].keys, d), rowWords(storedForms[form].values, d)];
      return `${copy(`keys[source * ${key}u`, `${key}u`, 'at')}
    ${copy(`values[source * ${value}u`, `${value}u`, `at + ${key}u`)}`;
    };
    return {
      id: `model:move-records:${from}:${d}`,
      buffers: {
        sources: 'u32',
        entries: 'u32',
        keys: rowType(keys),
        ...(!records && { values: rowType(values) }),
        positions: 'u32',
        to: ['u32', 'write'],
        moved: ['u32', 'write'],
      },
      scalars: {},
      threads: STORE_THREADS,
      per: 'group',
      source: /* wgsl */ `
${rowFunctions('record-keys')}${storeFunctions('record-keys')}
var<workgroup> vector: array<f32, ${d}>;
${rows.map((part) => readsRows(part)).join('\n')}
${storesRows({ name: 'to_keys', buffer: 'to', form: 'record-keys', d })}
${storesRows({ name: 'to_values', buffer: 'to', form: 'record-values', d })}
fn run(group: u32, lane: u32) {
  let entry = entries[group];
  let source = sources[group];
  if (lane == 0u) { to[group] = entry; }
  if (source == ${NO_SLOT}u) { return; }
  if (lane == 0u) { moved[group] = positions[source]; }
  ${records ? 'let before = keys[source];' : ''}
  if (${entryLevel('entry')} == ${records ? entryLevel('before') : `${levelOf(from)}u`}) {
    let at = ${entryPlace('entry')};
    ${
      records
        ? `var sizes = ${recordWords(d)};
    ${copy(`keys[${entryPlace('before')}`, `sizes[${entryLevel('entry')}]`, 'at')}`
        : copyRows(from)
    }
    return;
  }
  ${rows
    .map(
      (
        part,
      ) => /* wgsl */ `${stageRows(part, { into: 'vector', stride: d, rows: 1, threads: STORE_THREADS, row: 'source', exists: 'true' })}
  workgroupBarrier();
  to_${part.name}_store_at(entry, lane);`,
    )
    .join('\n  workgroupBarrier();\n  ')}
}`,
    };
  },
);
