/** An ONNX model `y[rows, outputs] = x[rows, inputs] Wᵀ` with W `[outputs, inputs]` inside, as protobuf bytes (IR 8, opset 17). */
export function matmulModel(weight: Float32Array, outputs: number, inputs: number): Uint8Array {
  const transposed = new Float32Array(weight.length);
  for (let o = 0; o < outputs; o++) for (let i = 0; i < inputs; i++) transposed[i * outputs + o] = weight[o * inputs + i]!;
  const raw = new Uint8Array(transposed.buffer);
  const tensor = [varint(1, inputs), varint(1, outputs), varint(2, 1), text(8, 'w'), bytes(9, [raw])];
  const node = [text(1, 'x'), text(1, 'w'), text(2, 'y'), text(4, 'MatMul')];
  const value = (name: string, columns: number): Part => {
    const shape = bytes(2, [bytes(1, [text(2, 'rows')]), bytes(1, [varint(1, columns)])]);
    return [...text(1, name), ...bytes(2, [bytes(1, [varint(1, 1), shape])])];
  };
  const graph = [bytes(1, node), text(2, 'linear'), bytes(5, tensor), bytes(11, [value('x', inputs)]), bytes(12, [value('y', outputs)])];
  return concat([varint(1, 8), bytes(7, graph), bytes(8, [varint(2, 17)])].flat());
}

/** Pieces of a message; kept apart so that weights are copied once. */
type Part = readonly Uint8Array[];

function bytes(field: number, parts: readonly (Uint8Array | Part)[]): Part {
  const flat = parts.flat() as Uint8Array[];
  const length = flat.reduce((n, part) => n + part.length, 0);
  return [Uint8Array.from([...number(field * 8 + 2), ...number(length)]), ...flat];
}

function text(field: number, value: string): Part {
  return bytes(field, [new TextEncoder().encode(value)]);
}

function varint(field: number, value: number): Part {
  return [Uint8Array.from([...number(field * 8), ...number(value)])];
}

function number(value: number): number[] {
  const out: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  return [...out, value];
}

function concat(parts: Part): Uint8Array {
  const out = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
