import type { Decoder } from '@kv/engine';
import { BytecodeWriter, type AttentionShape } from './code.ts';
import { writeProgram } from './compile.ts';
import type { WasmRunnable } from './engine.ts';
import { install, sizesOf, type LoadedCode } from './install.ts';
import type { BufferSlice } from './layout.ts';
import type { WeightArena } from './placing.ts';
import type { ThreadPool } from './team.ts';

/** A pass as code: where each layer's begins and its rows lie, and those behind the last. */
export interface CompiledPass extends LoadedCode {
  readonly starts: readonly number[];
  /** Behind what the last layer appends to its caches. */
  readonly appended: number;
  readonly rows: readonly BufferSlice[];
  /** Behind the layers, in the same code, where it has them. */
  readonly logits?: BufferSlice;
}

/** What lines are for: so many rows, of one sequence or `apart` of several, and with their logits or without. */
interface PassShape {
  readonly rows: number;
  readonly apart?: boolean;
  readonly head: boolean;
}

/** Writes a pass through all layers, and puts it into the team's memory. */
export function compilePass(
  team: ThreadPool,
  placing: WeightArena,
  { layers, head, config }: Decoder<WasmRunnable>,
  shapes: readonly AttentionShape[],
  { rows, apart, head: withHead }: PassShape,
): CompiledPass {
  const code = new BytecodeWriter(sizesOf(team), rows, apart),
    offsets: number[] = [],
    places: BufferSlice[] = [code.value(config.hidden, true)];
  for (const [l, { project, finish }] of layers.entries()) {
    offsets.push(code.length);
    const x = places[l],
      [q, k, v] = writeProgram(code, project.program, project.placed, [x]),
      attended = code.attention(q, k, v, shapes[l]);
    for (const room of new Set([q, k, v].map((place) => place.room))) code.layout.give(room);
    const [y] = writeProgram(code, finish.program, finish.placed, [x, attended]);
    code.free(x);
    code.free(attended);
    places.push(y);
  }
  offsets.push(code.length);
  const [logits] = withHead ? writeProgram(code, head.program, head.placed, [places[layers.length]]) : [],
    installed = install(team, placing, code);
  return {
    ...installed,
    starts: offsets.map((at) => installed.code + at),
    appended: installed.code + code.appended,
    rows: places,
    ...(logits && { logits }),
  };
}

/** How many of `most` layers from this one on turn by the same angles, or by none. */
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
