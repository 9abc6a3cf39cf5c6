import { KvError } from '@kv/core';
import { field, float, join, minusOne, whole, type ProtobufBytes } from './protobuf.ts';

/** A dimension: its size, or a name for one that is known when the graph runs. */
export type Dimension = number | string;

/** Whole numbers, and f32 numbers in an object. */
type Attributes = Readonly<Record<string, number | readonly number[] | { readonly float: number }>>;

/**
 * Writes an ONNX model (IR 8, opset 17 and com.microsoft 1) whose values are f32. Each call adds to it and returns the
 * name of its result.
 */
export interface GraphWriter {
  input(name: string, shape: readonly Dimension[], type?: 'f32' | 'int64'): string;
  /** Declares a value as output `name`. */
  output(name: string, value: string, shape: readonly Dimension[]): void;
  floats(data: Float32Array, shape: readonly number[]): string;
  bytes(data: Uint8Array, shape: readonly number[]): string;
  ints(...data: readonly number[]): string;
  /** Adds an integer of rank 0. */
  int(value: number): string;
  /** Adds a node of the standard domain with one result. */
  op(type: string, inputs: readonly string[], attributes?: Attributes): string;
  /** Adds a node of `com.microsoft` with one result. */
  contrib(type: string, inputs: readonly string[], attributes?: Attributes): string;
  /** Adds a node of the standard domain whose result is named `to`. */
  to(type: string, inputs: readonly string[], to: string, attributes?: Attributes): string;
  /** Adds a node of `com.microsoft` whose results have these names. */
  contribs(type: string, inputs: readonly string[], to: readonly string[], attributes?: Attributes): readonly string[];
  /** Declares a result as an output under its own name. */
  declare(value: string, shape: readonly Dimension[]): void;
  /** Returns the model's bytes. @throws KvError beyond the 2 GiB limit of such a model */
  model(): Uint8Array;
}

/** Element types, as ONNX numbers them. */
export const types = { f32: 1, uint8: 2, int32: 6, int64: 7, bool: 9 } as const;
const limit = 2 ** 31 - 1;

/** The location of a tensor in a separate file next to the model. */
export interface ExternalData {
  readonly file: string;
  readonly offset: number;
  readonly length: number;
}

/**
 * Returns an empty model to write to. @param store moves a tensor's bytes to a separate file, or returns undefined to
 * keep them inside
 */
export function graphWriter(name: string, store?: (bytes: Uint8Array) => ExternalData | undefined): GraphWriter {
  interface Node {
    readonly type: string;
    readonly from: readonly string[];
    readonly attributes: Attributes;
    readonly domain: string;
    readonly to: readonly string[];
  }
  const nodes: Node[] = [],
    constants: ProtobufBytes[] = [],
    inputs: ProtobufBytes[] = [],
    outputs: ProtobufBytes[] = [],
    results = new Set<string>();
  /** Results renamed by an output. */
  const renamed = new Map<string, string>();
  let values = 0;
  /** Names of tensors already written, by the memory that they lie in. */
  const written = new WeakMap<ArrayBufferLike, Map<string, string>>();
  const constant = (
    type: keyof typeof types,
    shape: readonly number[],
    { buffer, byteOffset, byteLength }: ArrayBufferView,
  ): string => {
    const there = written.get(buffer) ?? new Map<string, string>(),
      place = `${byteOffset} ${type} ${shape.join()}`,
      again = there.get(place);
    if (again !== undefined) return again;
    const value = `c${values++}`;
    written.set(buffer, there.set(place, value));
    const data = new Uint8Array(buffer, byteOffset, byteLength),
      stored = store?.(data);
    constants.push(
      field(5, [
        ...shape.flatMap((size) => whole(1, size)),
        ...whole(2, types[type]),
        ...field(8, value),
        ...(stored ? externalFields(stored) : field(9, [data])),
      ]),
    );
    return value;
  };
  const nodeTo = (
    type: string,
    from: readonly string[],
    attributes: Attributes,
    domain: string,
    to: readonly string[],
  ): void => {
    nodes.push({ type, from, attributes, domain, to });
    for (const result of to) results.add(result);
  };
  const node = (type: string, from: readonly string[], attributes: Attributes, domain: string): string => {
    const to = `t${values++}`;
    nodeTo(type, from, attributes, domain, [to]);
    return to;
  };
  const known = (value: string): string => renamed.get(value) ?? value;
  const nodeMessage = ({ type, from, attributes, domain, to }: Node): ProtobufBytes => {
    const parts = [
      ...from.flatMap((value) => field(1, known(value))),
      ...to.flatMap((value) => field(2, known(value))),
      ...field(4, type),
      ...field(7, domain),
    ];
    return field(1, [
      ...parts,
      ...Object.entries(attributes).flatMap(([key, value]) => field(5, attribute(key, value))),
    ]);
  };
  return {
    input(value, shape, type = 'f32') {
      inputs.push(field(11, valueInfo(value, shape, type)));
      return value;
    },
    declare: (value, shape) => void outputs.push(field(12, valueInfo(value, shape))),
    output(to, value, shape) {
      renamed.set(results.has(value) && !renamed.has(value) ? value : node('Identity', [value], {}, ''), to);
      outputs.push(field(12, valueInfo(to, shape)));
    },
    floats: (data, shape) => constant('f32', shape, data),
    bytes: (data, shape) => constant('uint8', shape, data),
    int: (value) => constant('int64', [], BigInt64Array.of(BigInt(value))),
    ints: (...data) => constant('int64', [data.length], BigInt64Array.from(data, BigInt)),
    op: (type, from, attributes = {}) => node(type, from, attributes, ''),
    contrib: (type, from, attributes = {}) => node(type, from, attributes, 'com.microsoft'),
    to(type, from, to, attributes = {}) {
      nodeTo(type, from, attributes, '', [to]);
      return to;
    },
    contribs(type, from, to, attributes = {}) {
      nodeTo(type, from, attributes, 'com.microsoft', to);
      return to;
    },
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

/** Returns `data_location` EXTERNAL with the location. */
function externalFields({ file, offset, length }: ExternalData): ProtobufBytes {
  const entries = { location: file, offset: String(offset), length: String(length) };
  return [
    ...Object.entries(entries).flatMap(([key, value]) => field(13, [...field(1, key), ...field(2, value)])),
    ...whole(14, 1),
  ];
}

function valueInfo(name: string, shape: readonly Dimension[], type: keyof typeof types = 'f32'): ProtobufBytes {
  const dimensions = shape.flatMap((size) => field(1, typeof size === 'string' ? field(2, size) : whole(1, size)));
  return [...field(1, name), ...field(2, field(1, [...whole(1, types[type]), ...field(2, dimensions)]))];
}

function attribute(key: string, value: Attributes[string]): ProtobufBytes {
  const number = (at: number, n: number): ProtobufBytes => (n === -1 ? minusOne(at) : whole(at, n));
  const named = field(1, key);
  if (typeof value === 'number') return [...named, ...number(3, value), ...whole(20, 2)];
  if ('float' in value) return [...named, ...float(2, value.float), ...whole(20, 1)];
  return [...named, ...value.flatMap((n) => number(8, n)), ...whole(20, 7)];
}
