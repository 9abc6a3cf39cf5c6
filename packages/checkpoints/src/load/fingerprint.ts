import { KvError } from '@kv/core';
import type { ModelConfig } from '../config/config.ts';
import { keepsSlots, slotHeads } from '../config/mixers.ts';
import { unreadRows, type Matrix, type MatrixPart, type RowsRead } from '../format/matrix.ts';
import { tensorTypes } from '../format/tensor-types.ts';
import { joinedBytes } from '../read/join-bytes.ts';

/** Samples taken from each array, evenly spaced, and bytes of each sample. */
const PIECES = 64,
  BYTES = 64;

/** Identity of a checkpoint, as files made for it record it. */
export interface FileIdentity {
  /** SHA-256 in hex over the checkpoint's configuration and a sample of its weights. */
  readonly fingerprint: string;
}

/**
 * Checks that a file made for the fingerprint `of` belongs to this checkpoint. `what` says what was expected, `got`
 * what was found instead.
 * @throws KvError if it does not
 */
export function expectNamed(where: string, { fingerprint }: FileIdentity, of: string, what: string, got = 'one'): void {
  if (of === fingerprint) return;
  const [own, other] = [fingerprint, of].map((name) => name.slice(0, 12));
  throw new KvError(where, `expected ${what} (fingerprint ${own}), got ${got} of another model (${other})`);
}

/** Samples weights as they are read, to fingerprint a checkpoint. */
interface Fingerprint<W> {
  /** The weights; reading them through here samples them. */
  readonly weights: W;
  /** Computes the fingerprint over the configuration and every sample so far. */
  names(config: ModelConfig): Promise<FileIdentity>;
}

/**
 * Wraps weights so that reading them once also fingerprints the checkpoint: of every array, its size and 4 KB spread
 * evenly over it.
 */
export function withFingerprint<W extends object>(weights: W): Fingerprint<W> {
  const samples = new Map<string, readonly Uint8Array[]>();
  const note = (name: string, value: unknown): unknown => {
    const tapped = tap(value);
    samples.set(name, [...sample(tapped)]);
    return tapped;
  };
  const tapped = (all: object): object =>
    Object.fromEntries(
      Object.entries(all).map(([name, value]: [string, unknown]) => {
        if (name === 'byRows') return [name, tapped(value as object)];
        if (typeof value !== 'function') return [name, note(name, value)];
        const read = value as (...given: unknown[]) => unknown;
        return [name, async (...args: unknown[]) => note(`${name}(${args.join()})`, await read.apply(all, args))];
      }),
    );
  return {
    weights: tapped(weights) as W,
    async names(config) {
      const sampled = [...samples]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .flatMap(([name, bytes]) => [new TextEncoder().encode(name), ...bytes]);
      const form = new TextEncoder().encode(canonical(lasting(portable(config)))),
        hash = await crypto.subtle.digest('SHA-256', joinedBytes([form, ...sampled]));
      return {
        fingerprint: Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join(''),
      };
    },
  };
}

/** Where the samples of this many bytes begin. */
const places = (length: number): readonly number[] =>
  Array.from({ length: PIECES }, (_, i) => Math.floor((i * length) / PIECES));

/** Rows that are sampled as they are read: the same samples as those of `bytes`, once all were read. */
class SampledRows implements MatrixPart {
  readonly type: MatrixPart['type'];
  readonly rows: number;
  readonly unit: number;
  readonly length: number;
  readonly samples: readonly (readonly [at: number, bytes: Uint8Array])[];
  readonly #read: RowsRead;
  readonly #row: number;

  constructor({ type, rows, unit = 1 }: MatrixPart, inputs: number, read: RowsRead) {
    [this.type, this.rows, this.unit, this.#read] = [type, rows, unit, read];
    this.#row = (inputs / tensorTypes[type].numbers) * tensorTypes[type].bytes;
    this.length = rows * this.#row;
    this.samples = places(this.length).map((at) => [at, new Uint8Array(Math.min(BYTES, this.length - at))]);
  }

  get bytes(): never {
    return unreadRows(this.type, this.rows, this.#read).bytes as never;
  }

  readonly read: RowsRead = async (from, ...rest) => {
    const bytes = await this.#read(from, ...rest),
      first = from * this.#row;
    for (const [at, sample] of this.samples) {
      const [low, high] = [Math.max(at, first), Math.min(at + sample.length, first + bytes.length)];
      if (low < high) sample.set(bytes.subarray(low - first, high - first), low - at);
    }
    return bytes;
  };
}

/** Returns what was read, with rows that are still in their file sampled as they are read. */
function tap(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  if (!('parts' in value)) return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, tap(field)]));
  const { parts, inputs, ...shape } = value as Matrix;
  return {
    ...shape,
    inputs,
    parts: parts.map((part) => (part.read ? new SampledRows(part, inputs, part.read) : part)),
  };
}

/** Yields the bytes of every array within a value, and of its other fields. */
function* sample(value: unknown): Generator<Uint8Array> {
  const text = (x: unknown): Uint8Array => new TextEncoder().encode(String(x));
  if (ArrayBuffer.isView(value)) {
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    yield text(`[${bytes.length}]`);
    for (const at of places(bytes.length)) yield bytes.slice(at, at + BYTES);
  } else if (value instanceof SampledRows) {
    for (const field of ['type', value.type, 'rows', value.rows, 'bytes', `[${value.length}]`]) yield text(field);
    for (const [, bytes] of value.samples) yield bytes;
  } else if (typeof value === 'function')
    return; // reads more on demand
  else if (typeof value === 'object' && value !== null)
    for (const [name, field] of Object.entries(value)) {
      yield text(name);
      yield* sample(field);
    }
  else yield text(value);
}

/** Rounds away the last bits of powers and logarithms, in which JavaScript engines differ. */
const portable = (config: ModelConfig): ModelConfig => ({
  ...config,
  ropes: config.ropes.map(({ divisors, attentionFactor, ...rope }) => ({
    ...rope,
    ...(divisors && { divisors: divisors.map(Math.fround) }),
    ...(attentionFactor !== undefined && { attentionFactor: Math.fround(attentionFactor) }),
  })),
});

/**
 * Puts a configuration in the stable form that fingerprints are computed over, since saved caches and sidecar files
 * record them.
 */
function lasting({ ropes, mixers, ...config }: ModelConfig): object {
  const [rope, ...others] = ropes.map(canonical),
    [{ kvHeads, headDim }, ...rest] = slotHeads({ mixers }),
    alike = rest.every((heads) => heads.kvHeads === kvHeads && heads.headDim === headDim),
    kinds = mixers.map((mixer) =>
      alike && mixer.kind === 'attention' && keepsSlots(mixer) ? { kind: mixer.kind } : mixer,
    );
  return {
    ...config,
    ...(alike && { kvHeads, headDim }),
    ...((!alike || slotHeads({ mixers }).length < mixers.length) && { mixers: kinds }),
    ...(others.every((other) => other === rope) ? { rope: ropes[0] } : { ropes }),
  };
}

/** JSON with sorted keys. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, field: unknown) =>
    typeof field === 'object' && field !== null && !Array.isArray(field)
      ? Object.fromEntries(Object.entries(field).sort(([a], [b]) => (a < b ? -1 : 1)))
      : field,
  );
