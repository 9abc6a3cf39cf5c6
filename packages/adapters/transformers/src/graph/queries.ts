import { KvError } from '@kv/core';
import type { SessionShape } from '../shape.ts';
import type { Graph, GraphNode } from './read.ts';

/** The tensor of a graph that holds a layer's queries. */
export interface QueryOutput {
  readonly name: string;
  /** `rows`: `[1, m, H d]` or longer rows; `heads`: `[1, H, m, d]`, or with groups between. */
  readonly layout: 'rows' | 'heads';
  /** Whether rotary embedding has been applied. */
  readonly turned: boolean;
  /** Factor applied to q·k. */
  readonly scale: number;
}
/** One entry per layer. */
export type QueryOutputs = readonly QueryOutput[];

const FUSED = ['GroupQueryAttention', 'MultiHeadAttention'];
/** Operators between keys and their product with queries. */
const LAYOUT = ['Transpose', 'Unsqueeze', 'Expand', 'Reshape', 'Identity', 'Cast', 'Mul', 'Div'];
/** Operators that compute a scalar factor of queries. */
const NUMBER = ['Constant', 'Sqrt', 'Pow', 'Reciprocal'];

/** Finds the queries of every layer. @throws KvError naming the layer whose attention has another form. */
export function queryOutputs(graph: Graph, { layers, headDim, scale }: SessionShape): QueryOutputs {
  const makers = new Map(graph.nodes.flatMap((node) => node.outputs.map((name) => [name, node] as const))),
    readers = new Map<string, GraphNode[]>();
  for (const node of graph.nodes)
    for (const name of node.inputs) readers.set(name, [...(readers.get(name) ?? []), node]);
  return Array.from({ length: layers }, (_, l) => {
    const key = `present.${l}.key`,
      maker = makers.get(key),
      found = maker && FUSED.includes(maker.type) ? fused(maker, headDim) : plain(key, graph, makers, readers, scale);
    if (found) return found;
    throw new KvError(
      'source',
      `expected layer ${l} to be GroupQueryAttention, MultiHeadAttention or a product of queries and keys, got ${maker?.type ?? `no ${key}`}`,
    );
  });
}

function fused({ type, inputs: [name], attributes }: GraphNode, headDim: number): QueryOutput {
  const capped = attributes.get('softcap') ?? 0;
  if (capped !== 0 || attributes.get('rotary_interleaved'))
    throw new KvError(
      'source',
      `expected ${type} without ${capped === 0 ? 'interleaved rotary embeddings' : 'a soft cap'}, got one with it`,
    );
  return {
    name,
    layout: 'rows',
    turned: !attributes.get('do_rotary'),
    scale: attributes.get('scale') || 1 / Math.sqrt(headDim),
  };
}

/** Follows a layer's keys to their product with queries, and from there goes back past the scaling of queries. */
function plain(
  key: string,
  { constants }: Graph,
  makers: ReadonlyMap<string, GraphNode>,
  readers: ReadonlyMap<string, readonly GraphNode[]>,
  scale: number,
): QueryOutput | undefined {
  const maker = makers.get(key),
    open = [key, ...(maker?.type === 'Identity' ? maker.inputs : [])],
    seen = new Set(open);
  for (let value = open.shift(); value !== undefined; value = open.shift())
    for (const node of readers.get(value) ?? []) {
      if (node.type === 'MatMul' && node.inputs[1] === value)
        return { name: unscaled(node.inputs[0], constants, makers), layout: 'heads', turned: true, scale };
      if (LAYOUT.includes(node.type) && node.inputs[0] === value)
        for (const output of node.outputs.filter((name) => !seen.has(name))) {
          seen.add(output);
          open.push(output);
        }
    }
  return undefined;
}

function unscaled(name: string, constants: ReadonlySet<string>, makers: ReadonlyMap<string, GraphNode>): string {
  const maker = makers.get(name),
    number = (input: string): boolean => constants.has(input) || NUMBER.includes(makers.get(input)?.type ?? ''),
    [a, b] = maker?.inputs ?? [];
  if (maker && ['Mul', 'Div'].includes(maker.type) && number(b)) return unscaled(a, constants, makers);
  return maker?.type === 'Mul' && number(a) ? unscaled(b, constants, makers) : name;
}
