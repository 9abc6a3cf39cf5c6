import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import type { Matrix, MatrixPart } from '@kv/checkpoints';
import type { WeightFormat } from '../wgsl/weights.ts';
import { BLOCK_HALVES, formatOf, OCTET_WORDS, octetsOf, repack } from './repack.ts';

/** Rows `[from, from + rows)` of a weight in one form, small enough to be bound. */
export interface DevicePart {
  readonly form: WeightFormat;
  readonly from: number;
  readonly rows: number;
  readonly weights: Tensor;
  readonly scales: Tensor | undefined;
}

/** A weight `[outputs, inputs]` on the device. */
export interface DeviceMatrix {
  readonly outputs: number;
  readonly inputs: number;
  readonly parts: readonly DevicePart[];
  /** Whether products of many rows are multiplied in f16. */
  readonly half: boolean;
}

/** Some rows of a stored part. */
interface StoredRows {
  readonly part: MatrixPart;
  readonly from: number;
  readonly count: number;
}

/** Bytes that are repacked on the host at a time. */
const STAGED = 2 ** 23;

/**
 * Uploads a matrix, split by form and so that no buffer exceeds `bindingBytes`. The host holds a few MiB of it at a
 * time, plus the scales. `half` is for devices with `shader-f16`.
 */
export function uploadMatrix(
  commands: Commands,
  { outputs, inputs, parts }: Matrix,
  bindingBytes: number,
  half = false,
): DeviceMatrix {
  const made: DevicePart[] = [];
  let from = 0;
  for (const pieces of bindable(parts, inputs, bindingBytes)) {
    const uploaded = uploadPart(commands, pieces, inputs, from);
    made.push(uploaded);
    from += uploaded.rows;
  }
  return { outputs, inputs, parts: made, half };
}

/** Returns an uninitialised matrix of one part of 16-bit numbers, for plans. */
export function reserveMatrix(commands: Commands, { outputs, inputs }: Matrix): DeviceMatrix {
  const weights = commands.make([outputs * OCTET_WORDS.f16 * octetsOf(inputs)], 'u32');
  return { outputs, inputs, parts: [{ form: 'f16', from: 0, rows: outputs, weights, scales: undefined }], half: false };
}

const rowBytes = (form: WeightFormat, inputs: number): number => 4 * OCTET_WORDS[form] * octetsOf(inputs);

/** Returns runs of pieces of one form that fit one binding together. */
function bindable(parts: readonly MatrixPart[], inputs: number, bindingBytes: number): StoredRows[][] {
  const groups: { readonly form: WeightFormat; room: number; readonly pieces: StoredRows[] }[] = [];
  for (const part of parts) {
    const form = formatOf(part.type),
      most = Math.max(1, Math.floor(bindingBytes / rowBytes(form, inputs)));
    for (let at = 0; at < part.rows; ) {
      let last = groups.at(-1);
      if (last?.form !== form || last.room === 0) groups.push((last = { form, room: most, pieces: [] }));
      const count = Math.min(last.room, part.rows - at);
      last.pieces.push({ part, from: at, count });
      last.room -= count;
      at += count;
    }
  }
  return groups.map(({ pieces }) => pieces);
}

function uploadPart(commands: Commands, pieces: readonly StoredRows[], inputs: number, from: number): DevicePart {
  const form = formatOf(pieces[0].part.type),
    words = OCTET_WORDS[form] * octetsOf(inputs),
    halves = (inputs / 32) * BLOCK_HALVES[form];
  const rows = pieces.reduce((n, { count }) => n + count, 0),
    weights = commands.make([rows * words], 'u32');
  const scales = halves === 0 ? undefined : new Uint16Array(2 * Math.ceil((rows * halves) / 2)),
    atOnce = Math.max(1, Math.floor(STAGED / (4 * words)));
  let row = 0;
  for (const { part, from: first, count } of pieces)
    for (let at = 0; at < count; at += atOnce) {
      const some = Math.min(atOnce, count - at),
        packed = repack(part, inputs, first + at, some);
      commands.write(weights, packed.weights, row * words);
      scales?.set(packed.scales, row * halves);
      row += some;
    }
  return {
    form,
    from,
    rows,
    weights,
    scales: scales && commands.upload(new Uint32Array(scales.buffer), [scales.length / 2]),
  };
}
