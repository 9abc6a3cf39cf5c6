import { KvError } from '@kv/core';
import type { Rope } from '@kv/core';
import type { Tensor } from '@huggingface/transformers';
import type { QueryOutput } from './graph/queries.ts';
import type { SessionQueryRing } from './record.ts';
import { rotator } from './rope.ts';
import type { SessionShape } from './shape.ts';
import { floats } from './tensors.ts';

/** Returns an output of the graph. @throws KvError where it is missing */
export function takeOutput(outputs: { readonly [name: string]: Tensor }, name: string): Tensor {
  if (outputs[name]) return outputs[name];
  throw new KvError('generate', `expected an output ${name} of the model's graph, got none`);
}

interface Remembering {
  readonly shape: SessionShape;
  readonly rope: Rope | undefined;
  readonly window: number;
  /** Rotary position of the first new query. */
  readonly first: number;
}

/**
 * Appends a graph's queries to the recorded ones and keeps the latest. The output is `[1, m, H d]` (or a longer row
 * that also holds other vectors) or heads first; queries are scaled so that q·k / sqrt(d) is what the model's softmax
 * takes.
 */
export function appendQueries(
  before: SessionQueryRing | undefined,
  { layout, turned, scale }: QueryOutput,
  output: Tensor,
  { shape: { queryHeads: H, headDim: d }, rope, window, first }: Remembering,
): SessionQueryRing {
  const x = floats(output),
    m = layout === 'rows' ? output.dims[1] : x.length / (H * d),
    row = layout === 'rows' ? output.dims[2] : 0,
    fresh = Math.min(m, window),
    old = Math.min(before?.count ?? 0, window - fresh),
    count = old + fresh,
    data = new Float32Array(H * count * d),
    rotations = new Int32Array(H * count),
    turn = rope && !turned ? rotator(rope) : undefined,
    by = scale * Math.sqrt(d);
  for (let h = 0; h < H; h++) {
    if (before)
      for (let i = 0; i < old; i++) {
        const from = h * before.count + before.count - old + i;
        data.set(before.data.subarray(from * d, (from + 1) * d), (h * count + i) * d);
        rotations[h * count + i] = before.rotations[from];
      }
    for (let i = 0; i < fresh; i++) {
      const at = m - fresh + i,
        from = layout === 'rows' ? at * row + h * d : (h * m + at) * d,
        to = h * count + old + i;
      for (let c = 0; c < d; c++) data[to * d + c] = x[from + c] * by;
      rotations[to] = first + at;
      turn?.(data, to * d, 0, first + at);
    }
  }
  return { data, rotations, count };
}
