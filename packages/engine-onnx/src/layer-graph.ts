import type { HeadLayout, Program } from '@kv/engine';
import { graphWriter } from './graph.ts';
import type { WeightForm } from './product.ts';
import { angleInputs, body } from './program-graph.ts';
import { tokenAttention } from './token-attention.ts';

/**
 * Builds what follows a layer's attention and what precedes the next one's as one model. Inputs: `x` and `attended`
 * `[m, width]` of `finish`; those of `tokenAttention`, whose row is appended to `attended`; and `rows` `[n, width]`,
 * more rows for `next` only, after the first one's. Outputs: `y0` of `finish`, and `y1`, ... of `next` for all of these
 * rows.
 */
export function layerGraph(
  heads: HeadLayout,
  finish: Program,
  next: Program | undefined,
  form: WeightForm,
): Uint8Array {
  const graph = graphWriter(finish.name),
    [D, width] = finish.inputs.map((rows) => rows.width) as [number, number];
  const attended = graph.op('Concat', [tokenAttention(graph, heads), graph.input('attended', ['a', width])], {
    axis: 0,
  });
  const y = body(graph, finish, [graph.input('x', ['m', D]), attended], form)[0];
  graph.output('y0', y.value, y.shape);
  if (next !== undefined) {
    angleInputs(graph, next);
    const rows = graph.op('Concat', [y.value, graph.input('rows', ['n', D])], { axis: 0 });
    body(graph, next, [rows], form).forEach(({ value, shape }, i) => graph.output(`y${i + 1}`, value, shape));
  }
  return graph.model();
}
