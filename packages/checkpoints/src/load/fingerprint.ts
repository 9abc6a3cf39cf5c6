import { KvError } from '@kv/core';
import type { ModelConfig } from '../config/config.ts';
import { keepsSlots, slotHeads } from '../config/mixers.ts';
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
  const samples = new Map<string, Uint8Array[]>();
  const note = <T>(name: string, value: T): T => {
    samples.set(name, [...sample(value)]);
    return value;
  };
  const tapped = Object.entries(weights).map(
    ([name, value]: [string, unknown]) =>
      [
        name,
        typeof value !== 'function'
          ? note(name, value)
          : async (...args: unknown[]) =>
              note(`${name}(${args.join()})`, await (value as (...given: unknown[]) => unknown).apply(weights, args)),
      ] as const,
  );
  return {
    weights: Object.fromEntries(tapped) as W,
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

/** Yields the bytes of every array within a value, and of its other fields. */
function* sample(value: unknown): Generator<Uint8Array> {
  if (ArrayBuffer.isView(value)) {
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    yield new TextEncoder().encode(`[${bytes.length}]`);
    for (let i = 0; i < PIECES; i++) {
      const at = Math.floor((i * bytes.length) / PIECES);
      yield bytes.slice(at, at + BYTES);
    }
  } else if (typeof value === 'function')
    return; // reads more on demand
  else if (typeof value === 'object' && value !== null)
    for (const [name, field] of Object.entries(value)) {
      yield new TextEncoder().encode(name);
      yield* sample(field);
    }
  else yield new TextEncoder().encode(String(value));
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
