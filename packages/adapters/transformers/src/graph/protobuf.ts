import { KvError } from '@kv/core';

/** A field of a protobuf message: a number, or a view of its bytes. */
export interface Field {
  readonly number: number;
  readonly value: number;
  readonly bytes: Uint8Array | undefined;
}

/** Yields the fields of a message, in order. @throws KvError for bytes that are no message. */
export function* fields(message: Uint8Array): Generator<Field> {
  let at = 0;
  const broken = (): never => {
    throw new KvError('source', `expected an ONNX model, got bytes that are no protobuf message at ${at}`);
  };
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; shift < 10; shift++) {
      if (at >= message.length) return broken();
      const byte = message[at++];
      value += (byte & 127) * 2 ** (7 * shift);
      if (byte < 128) return value;
    }
    return broken();
  };
  const take = (length: number): Uint8Array => {
    if (!(length <= message.length - at)) return broken();
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const key = varint(),
      number = Math.floor(key / 8),
      kind = key % 8;
    if (kind === 0) yield { number, value: varint(), bytes: undefined };
    else if (kind === 2) yield { number, value: 0, bytes: take(varint()) };
    else if (kind === 1 || kind === 5) yield { number, value: 0, bytes: take(kind === 1 ? 8 : 4) };
    else broken();
  }
}

export const text = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);

/** Encodes a message from integers, texts and messages by field number, in order. */
export function message(
  ...parts: readonly (readonly [number: number, value: number | string | Uint8Array])[]
): Uint8Array {
  const bytes = parts.flatMap(([number, value]) => {
    if (typeof value === 'number') return [...varintOf(8 * number), ...varintOf(value)];
    const content = typeof value === 'string' ? new TextEncoder().encode(value) : value;
    return [...varintOf(8 * number + 2), ...varintOf(content.length), ...content];
  });
  return Uint8Array.from(bytes);
}

function varintOf(value: number): number[] {
  const rest = Math.floor(value / 128);
  return rest > 0 ? [(value % 128) | 128, ...varintOf(rest)] : [value];
}
