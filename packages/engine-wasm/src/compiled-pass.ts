import type { Decoder } from '@kv/engine';
import type { AttentionShape, ProjectedRows } from './attention-code.ts';
import type { ConvolutionShape } from './convolution-code.ts';
import type { DeltaShape } from './delta-code.ts';
import type { SpaceShape } from './space-code.ts';
import { BytecodeWriter } from './bytecode-writer.ts';
import { writeProgram } from './compile.ts';
import type { WasmRunnable } from './engine.ts';
import { install, sizesOf, type LoadedCode } from './install.ts';
import type { BufferSlice } from './layout.ts';
import type { WeightArena } from './weight-arena.ts';
import type { ThreadPool } from './thread-pool.ts';

/** What a layer's code does between its programs: one of these. */
export interface MixerShape {
  readonly attention?: AttentionShape;
  readonly convolution?: ConvolutionShape;
  readonly delta?: DeltaShape;
  readonly space?: SpaceShape;
}

/** The code of a pass: where each layer's code begins and its rows lie, and the rows after the last layer. */
export interface CompiledPass extends LoadedCode {
  readonly starts: readonly number[];
  /** Address after the code of the queries, keys and values of each layer that keeps slots, and where these lie. */
  readonly projected: readonly (ProjectedRows & { readonly end: number })[];
  /** Address after the code by which a block joins the cache, or the state, of each layer. */
  readonly appended: readonly number[];
  readonly rows: readonly BufferSlice[];
  /** Where the inputs that layers take of rows lie, where the model has such. */
  readonly inputs?: BufferSlice;
  /** The logits after the layers, if the same code computes them. */
  readonly logits?: BufferSlice;
}

/**
 * What the code is compiled for: the number of rows, of one sequence or `apart` of several, with or without their
 * logits.
 */
interface PassShape {
  readonly rows: number;
  readonly apart?: boolean;
  readonly head: boolean;
}

/** Compiles a pass through all layers into the pool's memory. */
export function compilePass(
  pool: ThreadPool,
  arena: WeightArena,
  { layers, head, config, perLayer }: Decoder<WasmRunnable>,
  mixers: readonly MixerShape[],
  { rows, apart, head: withHead }: PassShape,
): CompiledPass {
  const code = new BytecodeWriter(sizesOf(pool), rows, apart),
    { stream } = code,
    offsets: number[] = [],
    appended: number[] = [],
    projected: (ProjectedRows & { readonly end: number })[] = [],
    inputs = perLayer && stream.value(layers.length * (config.perLayer ?? 0), true),
    places: BufferSlice[] = [stream.value(config.hidden, true)];
  for (const [l, { project, finish }] of layers.entries()) {
    offsets.push(stream.length);
    const x = places[l],
      given = writeProgram(code, project.program, project.placed, [x]),
      mixed = writeMixer(code, given, mixers[l], (rows) => projected.push({ ...rows, end: stream.length }));
    appended.push(code.appended);
    for (const room of new Set(given.map((place) => place.room))) stream.layout.give(room);
    const [y] = writeProgram(code, finish.program, finish.placed, [x, mixed, ...(inputs ? [inputs] : [])]);
    code.free(x);
    code.free(mixed);
    places.push(y);
  }
  offsets.push(stream.length);
  const [logits] = withHead ? writeProgram(code, head.program, head.placed, [places[layers.length]]) : [],
    installed = install(pool, arena, code);
  return {
    ...installed,
    starts: offsets.map((at) => installed.code + at),
    projected: projected.map(({ end, ...rows }) => ({ ...rows, end: installed.code + end })),
    appended: appended.map((at) => installed.code + at),
    rows: places,
    ...(inputs && { inputs }),
    ...(logits && { logits }),
  };
}

/** Writes a layer's mixer of what its first program gives. */
function writeMixer(
  code: BytecodeWriter,
  [x, k, v, gate]: readonly BufferSlice[],
  { attention, convolution, delta, space }: MixerShape,
  projects: (rows: ProjectedRows) => void,
): BufferSlice {
  if (delta) return code.delta(x, delta);
  if (space) return code.space(x, space);
  if (convolution) return code.convolution(x, convolution);
  projects({ q: x, k, v });
  const { queryHeads, headDim, gateRun = 1 } = attention!, // the only one left
    out = code.attention(x, k, v, attention!);
  if (!gate) return out;
  const gated = code.outputGate(out, gate, queryHeads * headDim, gateRun);
  code.free(out);
  return gated;
}

/** Returns how many of `most` layers from this one on use the same angles, or none. */
export function alike(ropes: Decoder<WasmRunnable>['config']['ropes'], from: number, most: number): number {
  let rope = ropes[from],
    count = 0;
  for (; count < most; count++) {
    const next = ropes[from + count];
    if (next.rotary === 0) continue;
    if (rope.rotary > 0 && rope !== next) break;
    rope = next;
  }
  return count;
}
