import { fields, message, text } from './protobuf.ts';

/** A node of an ONNX graph. */
export interface GraphNode {
  readonly type: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Integer and f32 attributes. */
  readonly attributes: ReadonlyMap<string, number>;
}
/** The parts of an ONNX model that are needed; tensors are not copied. */
export interface Graph {
  readonly nodes: readonly GraphNode[];
  readonly constants: ReadonlySet<string>;
  /** External files that hold tensors. */
  readonly files: readonly string[];
}

/** Reads an ONNX model. @throws KvError for bytes that are none. */
export function readGraph(model: Uint8Array): Graph {
  const nodes: GraphNode[] = [],
    constants = new Set<string>(),
    files = new Set<string>();
  for (const { number, bytes: graph } of fields(model)) {
    if (number !== 7 || !graph) continue;
    for (const { number: part, bytes } of fields(graph)) {
      if (!bytes) continue;
      if (part === 1) nodes.push(readNode(bytes));
      if (part === 5) readTensor(bytes, constants, files);
    }
  }
  return { nodes, constants, files: [...files] };
}

function readNode(bytes: Uint8Array): GraphNode {
  const inputs: string[] = [],
    outputs: string[] = [],
    attributes = new Map<string, number>();
  let type = '';
  for (const { number, bytes: value } of fields(bytes)) {
    if (number === 1) inputs.push(text(value));
    if (number === 2) outputs.push(text(value));
    if (number === 4) type = text(value);
    if (number === 5 && value) readAttribute(value, attributes);
  }
  return { type, inputs, outputs, attributes };
}

function readAttribute(bytes: Uint8Array, attributes: Map<string, number>): void {
  let name = '',
    value: number | undefined;
  for (const field of fields(bytes)) {
    if (field.number === 1) name = text(field.bytes);
    if (field.number === 2 && field.bytes)
      value = new DataView(field.bytes.buffer, field.bytes.byteOffset).getFloat32(0, true);
    if (field.number === 3) value = field.value;
  }
  if (value !== undefined) attributes.set(name, value);
}

function readTensor(bytes: Uint8Array, constants: Set<string>, files: Set<string>): void {
  for (const { number, bytes: value } of fields(bytes)) {
    if (number === 8) constants.add(text(value));
    if (number !== 13 || !value) continue;
    const [key, content] = [...fields(value)].map((entry) => text(entry.bytes));
    if (key === 'location') files.add(content);
  }
}

/**
 * Returns a model with additional outputs: appends a second `graph` field, which protobuf readers merge with the first.
 */
export function withOutputs(model: Uint8Array, names: readonly string[], type: 'float32' | 'float16'): Uint8Array {
  const element = message([1, type === 'float32' ? 1 : 10]),
    output = (name: string): Uint8Array => message([1, name], [2, message([1, element])]),
    more = message([7, message(...names.map((name) => [12, output(name)] as const))]),
    out = new Uint8Array(model.length + more.length);
  out.set(model);
  out.set(more, model.length);
  return out;
}
