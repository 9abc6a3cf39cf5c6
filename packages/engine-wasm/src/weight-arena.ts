import type { Matrix, MatrixPart } from '@kv/checkpoints';
import type { WeightPanels } from './instructions.ts';
import { kindOf } from './kinds.ts';
import type { ThreadPool } from './thread-pool.ts';
import { tensorTypes } from '@kv/checkpoints';
import { repackRows } from './repack.ts';
import type { RepackedRows } from './repack.ts';

/** Outputs of a panel. */
const panel = 16;

/** The memory of a pool that one program holds. */
export class WeightArena {
  readonly #pool: ThreadPool;
  readonly #exact: boolean;
  readonly #held: { readonly at: number; readonly bytes: number }[] = [];

  /** @param exact whether activations of products stay f32 */
  constructor(pool: ThreadPool, exact: boolean) {
    [this.#pool, this.#exact] = [pool, exact];
  }

  take(bytes: number): number {
    const at = this.#pool.heap.allocate(bytes);
    this.#held.push({ at, bytes });
    return at;
  }

  /** Copies an array that kernels read in whole vectors, padded with zeros. */
  array(numbers: Float32Array): number {
    const at = this.take(4 * numbers.length + 64);
    this.#pool.heap.floats(at, numbers.length + 16).fill(0);
    this.#pool.heap.floats(at, numbers.length).set(numbers);
    return at;
  }

  /** Packs a weight into panels, at its stored width: one part for each run of rows of a kind, cut before `cut`. */
  weight(weight: Matrix, cut = 0): readonly WeightPanels[] {
    return runs(weight, cut).map((rows) => this.#panels(rows, weight.inputs));
  }

  #panels(pieces: readonly Piece[], inputs: number): WeightPanels {
    const { heap, kernels } = this.#pool,
      { type } = pieces[0].as,
      kind = kindOf(type),
      rows = pieces.reduce((sum, piece) => sum + piece.rows, 0),
      size = kernels.panelBytes(kind, inputs),
      at = this.take(size * Math.ceil(rows / panel)),
      rowBytes = (inputs / tensorTypes[type].numbers) * tensorTypes[type].bytes,
      raw = heap.allocate(panel * rowBytes),
      stored = heap.bytes(raw, panel * rowBytes);
    let filled = 0,
      done = 0;
    for (const { bytes, rows: count, as } of pieces)
      for (let r = 0; r < count; ) {
        const more = Math.min(panel - filled, count - r),
          each = bytes.length / count;
        stored.set(as.pack(bytes.subarray(r * each, (r + more) * each)), filled * rowBytes);
        [r, filled] = [r + more, filled + more];
        if (filled < panel && done + filled < rows) continue;
        kernels.pack(kind, raw, rowBytes, filled, inputs, at + (done / panel) * size);
        [done, filled] = [done + filled, 0];
      }
    heap.free(raw, panel * rowBytes);
    return { kind, rows, inputs, at, size, exact: this.#exact };
  }

  free(): void {
    for (const { at, bytes } of this.#held.splice(0)) this.#pool.heap.free(at, bytes);
  }
}

/** Stored rows, and the form that the module multiplies them in. */
interface Piece extends MatrixPart {
  readonly as: RepackedRows;
}

/** Returns runs of rows of one form, none across `cut`. */
function runs({ parts }: Matrix, cut: number): readonly (readonly Piece[])[] {
  const out: Piece[][] = [];
  let row = 0;
  for (const whole of parts)
    for (const part of split({ ...whole, as: repackRows(whole) }, cut - row)) {
      const last = out.at(-1);
      if (last !== undefined && last[0].as.type === part.as.type && row !== cut) last.push(part);
      else out.push([part]);
      row += part.rows;
    }
  return out;
}

/** Splits a part before its row `at`. */
function split(part: Piece, at: number): readonly Piece[] {
  if (!(at > 0 && at < part.rows)) return [part];
  const bytes = (at * part.bytes.length) / part.rows;
  return [
    { ...part, rows: at, bytes: part.bytes.subarray(0, bytes) },
    { ...part, rows: part.rows - at, bytes: part.bytes.subarray(bytes) },
  ];
}
