import { KvError } from '@kv/core';
import { variants } from '../variants.ts';
import type { GpuKernel } from '@kv/gpu';
import {
  LOWEST,
  scoreBuffers,
  scoreScalars,
  visibilitySource,
  type ScoreBuffer,
  type ScoreKind,
} from '../wgsl/visible.ts';
import { rangesSource } from '../wgsl/ranges.ts';
import { readsRows, rowFunctions, rowType, stageRows, type DeviceRowForm } from '../wgsl/stored-rows.ts';

/** Threads of a workgroup, slots of a tile of keys, channels staged at a time, and slots looked up in a mask at a time. */
const THREADS = 128,
  KEYS = 32,
  CHANNELS = 32,
  SCAN = 256;

/**
 * What one workgroup attends for: rows are pairs of a query and a query head of one KV head, so that its keys and
 * values are read once for all of them.
 */
export interface AttentionKind extends ScoreKind {
  readonly headDim: number;
  /** How keys and values are stored. */
  readonly keys: DeviceRowForm;
  readonly values: DeviceRowForm;
  readonly rows: 4 | 8 | 16;
  /** Whether several workgroups share the slots; their results are combined by `join`. */
  readonly split: boolean;
  /** Whether scores are kept. */
  readonly scores: boolean;
  /** Adds the probabilities of an earlier query to running sums, by query head or KV head; for one query only. */
  readonly adds?: 'heads' | 'kvHeads';
}

/** Returns the most rows of a workgroup whose queries fit into 16 KiB together with a tile of keys. */
export function mostRows(headDim: number): AttentionKind['rows'] {
  if (headDim <= 128) return 16;
  if (headDim <= 256) return 8;
  if (headDim <= 640) return 4;
  throw new KvError('attention', `expected heads of at most 640 numbers, got ${headDim}`);
}

/**
 * One workgroup: softmax attention of some rows over the slots of one KV head that they see (or a share of them), a
 * tile of 32 slots at a time with a running maximum and sum (FlashAttention-2, arXiv 2307.08691, algorithm 1). Slots
 * that the window or views hide from all rows are not read, nor those that a mask hides from all of them: what it shows
 * is listed, some hundred slots at a time, and tiles are taken from the list. Where scores are kept, all slots are read.
 * Workgroups that share slots take tiles, or what is looked up in the mask, in turn. q `[H, m, d]`, keys and values rows `[G,
 * capacity]`. `out` holds, whole: attended `[m, H * d]`, and from `meta_at` on the log-sum-exp `[H, last]` of the
 * last queries; split: for each of `[m, H, splits]` the sum of exp(score - maximum) * value `[d]`, and from `meta_at` on
 * that maximum and the sum of exponentials; from `scores_at` on scores `[m, H, score_stride]`.
 *
 * With `adds`, while the keys are there, exp(score - lse) of the query before: `past` holds it `[H, d]` and its
 * log-sum-exp `[H]`, `past_at` is its position; to `sums [H or G, sums_stride]`.
 */
export const attention: (
  kind: AttentionKind,
) => GpuKernel<
  'q' | 'keys' | 'values' | ScoreBuffer | 'out' | 'past' | 'sums',
  | keyof typeof scoreScalars
  | 'own'
  | 'past_at'
  | 'sums_stride'
  | 'splits'
  | 'last'
  | 'meta_at'
  | 'scores_at'
  | 'score_stride'
> = variants((kind) => {
  const { headDim: d, rows, split, scores, adds, masked } = kind,
    listed = masked && !scores;
  const lanes = THREADS / rows,
    each = KEYS / lanes,
    chunks = Math.ceil(d / CHANNELS);
  const width = chunks * CHANNELS + 1,
    all = Array.from({ length: chunks }, (_, chunk) => chunk);
  /** The slot of a tile's key. */
  const slot = (key: string): string =>
    listed ? `shown[start + ${key}]` : scores ? `(start + ${key})` : `slot_of(start + ${key}, ranges)`;
  const stage = (name: 'keys' | 'values', chunk: string): string => /* wgsl */ `
    workgroupBarrier();
    ${stageRows(
      { name, form: kind[name], d },
      {
        ...{ into: 'tile', stride: CHANNELS + 1, rows: KEYS, threads: THREADS },
        row: `g * params.capacity + ${slot('key')}`,
        exists: 'key < size',
        part: { index: chunk, channels: CHANNELS },
      },
    )}
    workgroupBarrier();`;
  const whole = /* wgsl */ `
  if (mine < count) {
    let to = (r * params.heads + h) * ${d}u;
    let over = select(0.0, 1.0 / sum, sum > 0.0);
    ${all.map((chunk) => /* wgsl */ `for (var i = 0u; i < ${each}u; i++) { let c = ${chunk * CHANNELS}u + sub + i * ${lanes}u; if (c < ${d}u) { out[to + c] = mixed${chunk}[i] * over; } }`).join('\n    ')}
    if (sub == 0u && r + params.last >= params.m) {
      out[params.meta_at + h * params.last + r + params.last - params.m] = select(${LOWEST}, top + log(sum), sum > 0.0);
    }
  }`;
  const part = /* wgsl */ `
  if (mine < count) {
    let at = (r * params.heads + h) * params.splits + part;
    ${all.map((chunk) => /* wgsl */ `for (var i = 0u; i < ${each}u; i++) { let c = ${chunk * CHANNELS}u + sub + i * ${lanes}u; if (c < ${d}u) { out[at * ${d}u + c] = mixed${chunk}[i]; } }`).join('\n    ')}
    if (sub == 0u) { out[params.meta_at + 2u * at] = top; out[params.meta_at + 2u * at + 1u] = sum; }
  }`;
  const add =
    adds &&
    /* wgsl */ `
    for (var i = 0u; i < ${each}u; i++) {
      let key = sub + i * ${lanes}u;
      var weight = 0.0;
      if (mine < count && key < size && was_seen(g, ${slot('key')})) { weight = exp(scored(earlier[i]) - past[params.heads * ${d}u + h]); }
      ${adds === 'heads' ? `if (weight > 0.0) { sums[h * params.sums_stride + ${slot('key')}] += weight; }` : `weights[row * ${KEYS + 1}u + sub + i * ${lanes}u] = weight;`}
    }${
      adds === 'heads'
        ? ''
        : /* wgsl */ `
    workgroupBarrier();
    if (lane < size) {
      var weight = 0.0;
      for (var i = 0u; i < ${rows}u; i++) { weight += weights[i * ${KEYS + 1}u + lane]; }
      sums[g * params.sums_stride + ${slot('lane')}] += weight;
    }
    workgroupBarrier();`
    }`;
  const attend = /* wgsl */ `
    var products = array<f32, ${each}>();
    ${adds ? `var earlier = array<f32, ${each}>();` : ''}
    for (var chunk = 0u; chunk < ${chunks}u; chunk++) {
      ${stage('keys', 'chunk')}
      for (var c = 0u; c < ${CHANNELS}u; c++) {
        let x = queries[row * ${width}u + chunk * ${CHANNELS}u + c];
        ${adds ? `let y = past[h * ${d}u + min(chunk * ${CHANNELS}u + c, ${d - 1}u)];` : ''}
        for (var i = 0u; i < ${each}u; i++) { let k = tile[(sub + i * ${lanes}u) * ${CHANNELS + 1}u + c]; products[i] += x * k; ${adds ? 'earlier[i] += y * k;' : ''} }
      }
    }
    ${add ?? ''}
    for (var i = 0u; i < ${each}u; i++) {
      let key = sub + i * ${lanes}u;
      var score = ${LOWEST};
      if (key < size && is_seen(r, h, g, ${slot('key')})) { score = score_of(products[i], g, ${slot('key')}); }
      weights[row * ${KEYS + 1}u + key] = score;
      products[i] = score;
      ${scores ? 'if (mine < count && key < size) { out[params.scores_at + (r * params.heads + h) * params.score_stride + start + key] = score; }' : ''}
    }
    workgroupBarrier();
    var best = top;
    for (var key = 0u; key < ${KEYS}u; key++) { best = max(best, weights[row * ${KEYS + 1}u + key]); }
    let shrink = exp(top - best);
    top = best;
    workgroupBarrier();
    for (var i = 0u; i < ${each}u; i++) { weights[row * ${KEYS + 1}u + sub + i * ${lanes}u] = select(0.0, exp(products[i] - top), products[i] > ${LOWEST}); }
    workgroupBarrier();
    var some = 0.0;
    for (var key = 0u; key < ${KEYS}u; key++) { some += weights[row * ${KEYS + 1}u + key]; }
    sum = sum * shrink + some;
    ${all
      .map(
        (chunk) => /* wgsl */ `{
    ${stage('values', `${chunk}u`)}
      var partial = array<f32, ${each}>();
      for (var key = 0u; key < ${KEYS}u; key++) {
        let x = weights[row * ${KEYS + 1}u + key];
        for (var i = 0u; i < ${each}u; i++) { partial[i] += x * tile[key * ${CHANNELS + 1}u + sub + i * ${lanes}u]; }
      }
      for (var i = 0u; i < ${each}u; i++) { mixed${chunk}[i] = mixed${chunk}[i] * shrink + partial[i]; }
    }`,
      )
      .join('\n    ')}`;
  const fromRanges = /* wgsl */ `
  for (var start = part * ${KEYS}u; start < length; start += params.splits * ${KEYS}u) {
    ${scores ? '' : `if (positions[g * params.capacity + ${slot('0u')}] > position_of(last / fold)) { break; }`}
    let size = min(${KEYS}u, length - start);${attend}
  }`;
  const own = `scanned + e / ${KEYS}u * params.splits * ${KEYS}u + e % ${KEYS}u`;
  const fromList = /* wgsl */ `
  var held = 0u; // listed, and not yet in a tile
  for (var scanned = part * ${KEYS}u; scanned < length; scanned += params.splits * ${SCAN}u) {
    if (lane < ${SCAN / 32}u) { atomicStore(&marks[lane], 0u); }
    workgroupBarrier();
    for (var e = lane; e < ${SCAN}u; e += ${THREADS}u) {
      let i = ${own};
      if (i < length && any_sees(first, last, fold, g, slot_of(i, ranges))) { atomicOr(&marks[e / 32u], 1u << (e % 32u)); }
    }
    workgroupBarrier();
    for (var e = lane; e < ${SCAN}u; e += ${THREADS}u) {
      let word = atomicLoad(&marks[e / 32u]);
      if (((word >> (e % 32u)) & 1u) == 1u) {
        var at = held + countOneBits(word & ((1u << (e % 32u)) - 1u));
        for (var w = 0u; w < e / 32u; w++) { at += countOneBits(atomicLoad(&marks[w])); }
        shown[at] = slot_of(${own}, ranges);
      }
    }
    if (lane == 0u) {
      listed = held;
      for (var w = 0u; w < ${SCAN / 32}u; w++) { listed += countOneBits(atomicLoad(&marks[w])); }
    }
    let all = workgroupUniformLoad(&listed);
    let ready = select(all / ${KEYS}u * ${KEYS}u, all, scanned + params.splits * ${SCAN}u >= length);
    for (var start = 0u; start < ready; start += ${KEYS}u) {
      let size = min(${KEYS}u, ready - start);${attend}
    }
    held = all - ready;
    var rest = 0u;
    if (lane < held) { rest = shown[ready + lane]; }
    workgroupBarrier();
    if (lane < held) { shown[lane] = rest; }
  }`;
  return {
    id: `model:attention:${d}:${kind.keys}:${kind.values}:${rows}:${split}:${scores}:${masked}:${kind.biased ?? false}:${adds ?? ''}`,
    buffers: {
      q: 'f32',
      keys: rowType(kind.keys),
      values: rowType(kind.values),
      ...scoreBuffers(kind),
      ...(adds && { past: 'f32', sums: ['f32', 'write'] as const }),
      out: ['f32', 'write'],
    },
    scalars: {
      ...scoreScalars,
      own: 'u32',
      past_at: 'u32',
      sums_stride: 'u32',
      splits: 'u32',
      last: 'u32',
      meta_at: 'u32',
      scores_at: 'u32',
      score_stride: 'u32',
    },
    threads: THREADS,
    per: 'group',
    source: /* wgsl */ `
${visibilitySource(kind)}
${scores ? '' : rangesSource(kind)}
${rowFunctions(kind.keys, kind.values)}
${readsRows({ name: 'keys', form: kind.keys, d })}
${readsRows({ name: 'values', form: kind.values, d })}
${
  adds
    ? /* wgsl */ `fn was_seen(g: u32, j: u32) -> bool {
  let position = positions[g * params.capacity + j];
  return position == params.past_at || (position < params.past_at && params.past_at - position < params.window);
}`
    : ''
}
var<workgroup> queries: array<f32, ${rows * width}>;
var<workgroup> tile: array<f32, ${KEYS * (CHANNELS + 1)}>;
var<workgroup> weights: array<f32, ${rows * (KEYS + 1)}>;
${
  listed
    ? /* wgsl */ `var<workgroup> marks: array<atomic<u32>, ${SCAN / 32}>;
var<workgroup> shown: array<u32, ${KEYS + SCAN}>;
var<workgroup> listed: u32;
fn any_sees(first: u32, last: u32, fold: u32, g: u32, j: u32) -> bool {
  for (var i = first; i <= last; i++) { if (is_seen(i / fold, g * fold + i % fold, g, j)) { return true; } }
  return false;
}`
    : ''
}
fn run(group: u32, lane: u32) {
  let fold = params.heads / params.kv_heads;
  let count = params.m * fold;
  let tiles = (count + ${rows - 1}u) / ${rows}u;
  let part = group % params.splits;
  let first = group / params.splits % tiles * ${rows}u;
  let g = group / (params.splits * tiles);
  let row = lane / ${lanes}u;
  let sub = lane % ${lanes}u;
  let mine = first + row;
  let r = min(mine, count - 1u) / fold;
  let h = g * fold + min(mine, count - 1u) % fold;
  let last = min(first + ${rows - 1}u, count - 1u);
  ${scores ? 'let length = lengths[g];' : 'let ranges = ranges_of(g, first / fold, last / fold);\n  let length = ranges.count;'}
  for (var e = lane; e < ${rows * chunks * CHANNELS}u; e += ${THREADS}u) {
    let i = min(first + e / ${chunks * CHANNELS}u, count - 1u);
    let c = e % ${chunks * CHANNELS}u;
    var value = 0.0;
    if (c < ${d}u) { value = q[((g * fold + i % fold) * params.m + i / fold) * ${d}u + c]; }
    queries[e / ${chunks * CHANNELS}u * ${width}u + c] = value;
  }
  var top = ${LOWEST};
  var sum = 0.0;
  ${all.map((chunk) => `var mixed${chunk} = array<f32, ${each}>();`).join(' ')}
  ${listed ? fromList : fromRanges}
  ${
    scores
      ? /* wgsl */ `
  if (mine < count) { for (var j = lengths[g] + part * ${lanes}u + sub; j < params.score_stride; j += params.splits * ${lanes}u) { out[params.scores_at + (r * params.heads + h) * params.score_stride + j] = ${LOWEST}; } }`
      : ''
  }
  ${split ? part : whole}
}`,
  };
});
