import { stageRows, type StoredRows } from './stored-rows.ts';

/** Slots of a workgroup of as many threads, and queries that it takes at a time. */
export const SLOTS = 64,
  QUERIES = 16;
/** Channels that are staged at a time. */
const CHANNELS = 32;

/** Declares the workgroup memory that `products` is staged through. */
export const STAGES: string = /* wgsl */ `
var<workgroup> queries: array<f32, ${QUERIES * CHANNELS}>;
var<workgroup> tile: array<f32, ${SLOTS * (CHANNELS + 1)}>;`;

/**
 * Sets `products` to those of the key of this thread's slot, `first` + lane of KV head `g`, with 16 queries of query
 * head `h`: `start` and those after it. Keys from `end` on and queries from `stop` on count as zeros. All threads of a
 * workgroup come here together.
 */
export const products = ({ form, d }: Pick<StoredRows, 'form' | 'd'>, first: string): string => /* wgsl */ `
    var products = array<f32, ${QUERIES}>();
    for (var chunk = 0u; chunk < ${Math.ceil(d / CHANNELS)}u; chunk++) {
      workgroupBarrier();
      ${stageRows(
        { name: 'keys', form, d },
        {
          ...{ into: 'tile', stride: CHANNELS + 1, rows: SLOTS, threads: SLOTS },
          row: `g * params.capacity + ${first} + key`,
          exists: `${first} + key < end`,
          part: { index: 'chunk', channels: CHANNELS },
        },
      )}
      for (var e = lane; e < ${QUERIES * CHANNELS}u; e += ${SLOTS}u) {
        let r = start + e / ${CHANNELS}u;
        let c = chunk * ${CHANNELS}u + e % ${CHANNELS}u;
        var value = 0.0;
        if (r < stop && c < ${d}u) { value = q[(h * params.m + r) * ${d}u + c]; }
        queries[e] = value;
      }
      workgroupBarrier();
      for (var c = 0u; c < ${CHANNELS}u; c++) {
        let x = tile[lane * ${CHANNELS + 1}u + c];
        for (var i = 0u; i < ${QUERIES}u; i++) { products[i] += x * queries[i * ${CHANNELS}u + c]; }
      }
    }`;
