/** Pieces of a protobuf message, in order; kept apart so that weights are copied only once, at the end. */
export type ProtobufBytes = readonly Uint8Array[];

/** Encodes a field of bytes: a string, packed numbers or another message. */
export function field(number: number, content: ProtobufBytes | string): ProtobufBytes {
  const parts = typeof content === 'string' ? [new TextEncoder().encode(content)] : content;
  const length = parts.reduce((n, part) => n + part.length, 0);
  return [Uint8Array.from([...varint(number * 8 + 2), ...varint(length)]), ...parts];
}

/** Encodes a field that is an integer >= 0. */
export function whole(number: number, value: number): ProtobufBytes {
  return [Uint8Array.from([...varint(number * 8), ...varint(value)])];
}

/** Encodes a field that is -1, the only negative number in graphs. */
export function minusOne(number: number): ProtobufBytes {
  return [Uint8Array.from([...varint(number * 8), 255, 255, 255, 255, 255, 255, 255, 255, 255, 1])];
}

/** Encodes a field that is an f32 number. */
export function float(number: number, value: number): ProtobufBytes {
  const bytes = new Uint8Array(5);
  bytes[0] = number * 8 + 5;
  new DataView(bytes.buffer).setFloat32(1, value, true);
  return [bytes];
}

/** Returns the message's bytes in one array. */
export function join(message: ProtobufBytes): Uint8Array {
  const out = new Uint8Array(message.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of message) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function varint(value: number): number[] {
  const out: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  return [...out, value];
}
