import { KvError } from '@kv/core';
import { field, float, join, minusOne, whole, type Message } from './protobuf.ts';

/** A dimension: its size, or a name for one that is known when the graph runs. */
export type Dimension = number | string;

/** Whole numbers, and f32 numbers in an object. */
type Attributes = Readonly<Record<string, number | readonly number[] | { readonly float: number }>>;

/**
 * Writes an ONNX model (IR 8, opset 17 and com.microsoft 1) whose values are f32; each call adds to it and names its
 * result.
 */
export interface GraphWriter {
  input(name: string, shape: readonly Dimension[]): string;
  /** Declares a value as output `name`. */
  output(name: string, value: string, shape: readonly Dimension[]): void;
  floats(data: Float32Array, shape: readonly number[]): string;
  bytes(data: Uint8Array, shape: readonly number[]): string;
  ints(...data: readonly number[]): string;
  /** One node of the standard domain, one result. */
  op(type: string, inputs: readonly string[], attributes?: Attributes): string;
  /** One node of `com.microsoft`, one result. */
  contrib(type: string, inputs: readonly string[], attributes?: Attributes): string;
  /** @throws KvError beyond the 2 GiB that such a model may have. */
  model(): Uint8Array;
}

const types = { f32: 1, uint8: 2, int64: 7 } as const;
const limit = 2 ** 31 - 1;

export function graphWriter(name: string): GraphWriter {
  interface Node {
    readonly type: string;
    readonly from: readonly string[];
    readonly attributes: Attributes;
    readonly domain: string;
    readonly to: string;
  }
  const nodes: Node[] = [],
    constants: Message[] = [],
    inputs: Message[] = [],
    outputs: Message[] = [],
    results = new Set<string>();
  /** Results that an output names. */
  const renamed = new Map<string, string>();
  let values = 0;
  const constant = (
    type: keyof typeof types,
    shape: readonly number[],
    { buffer, byteOffset, byteLength }: ArrayBufferView,
  ): string => {
    const value = `c${values++}`;
    constants.push(
      field(5, [
        ...shape.flatMap((size) => whole(1, size)),
        ...whole(2, types[type]),
        ...field(8, value),
        ...field(9, [new Uint8Array(buffer, byteOffset, byteLength)]),
      ]),
    );
    return value;
  };
  const node = (type: string, from: readonly string[], attributes: Attributes, domain: string): string => {
    const to = `t${values++}`;
    nodes.push({ type, from, attributes, domain, to });
    results.add(to);
    return to;
  };
  const known = (value: string): string => renamed.get(value) ?? value;
  const nodeMessage = ({ type, from, attributes, domain, to }: Node): Message => {
    const parts = [
      ...from.flatMap((value) => field(1, known(value))),
      ...field(2, known(to)),
      ...field(4, type),
      ...field(7, domain),
    ];
    return field(1, [
      ...parts,
      ...Object.entries(attributes).flatMap(([key, value]) => field(5, attribute(key, value))),
    ]);
  };
  return {
    input(value, shape) {
      inputs.push(field(11, valueInfo(value, shape)));
      return value;
    },
    output(to, value, shape) {
      renamed.set(results.has(value) && !renamed.has(value) ? value : node('Identity', [value], {}, ''), to);
      outputs.push(field(12, valueInfo(to, shape)));
    },
    floats: (data, shape) => constant('f32', shape, data),
    bytes: (data, shape) => constant('uint8', shape, data),
    ints: (...data) => constant('int64', [data.length], BigInt64Array.from(data, BigInt)),
    op: (type, from, attributes = {}) => node(type, from, attributes, ''),
    contrib: (type, from, attributes = {}) => node(type, from, attributes, 'com.microsoft'),
    model() {
      const graph = [
        ...nodes.flatMap(nodeMessage),
        ...field(2, name),
        ...constants.flat(),
        ...inputs.flat(),
        ...outputs.flat(),
      ];
      const domains = [...field(8, whole(2, 17)), ...field(8, [...field(1, 'com.microsoft'), ...whole(2, 1)])];
      const message = [...whole(1, 8), ...field(7, graph), ...domains];
      const size = message.reduce((n, part) => n + part.length, 0);
      if (size > limit)
        throw new KvError(name, `a program's weights must fit the ${limit} bytes of an ONNX model, got ${size}`);
      return join(message);
    },
  };
}

function valueInfo(name: string, shape: readonly Dimension[]): Message {
  const dimensions = shape.flatMap((size) => field(1, typeof size === 'string' ? field(2, size) : whole(1, size)));
  return [...field(1, name), ...field(2, field(1, [...whole(1, types.f32), ...field(2, dimensions)]))];
}

function attribute(key: string, value: Attributes[string]): Message {
  const number = (at: number, n: number): Message => (n === -1 ? minusOne(at) : whole(at, n));
  const named = field(1, key);
  if (typeof value === 'number') return [...named, ...number(3, value), ...whole(20, 2)];
  if ('float' in value) return [...named, ...float(2, value.float), ...whole(20, 1)];
  return [...named, ...value.flatMap((n) => number(8, n)), ...whole(20, 7)];
}
