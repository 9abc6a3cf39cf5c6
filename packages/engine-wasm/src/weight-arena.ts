import type { Matrix, MatrixPart, RowsRead } from '@kv/checkpoints';
import type { WeightPanels } from './instructions.ts';
import { kindOf } from './kinds.ts';
import type { ThreadPool } from './thread-pool.ts';
import { tensorTypes } from '@kv/checkpoints';
import { repackRows } from './repack.ts';
import type { RepackedRows } from './repack.ts';

/** Outputs of a panel. */
const panel = 16;

/** Bytes of a weight that are read at a time. */
const readBytes = 2 ** 21;

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
  async weight(weight: Matrix, cut = 0): Promise<readonly WeightPanels[]> {
    const all: WeightPanels[] = [];
    for (const rows of runs(weight, cut)) all.push(await this.#panels(rows, weight.inputs));
    return all;
  }

  async #panels(pieces: readonly Piece[], inputs: number): Promise<WeightPanels> {
    const { heap, kernels } = this.#pool,
      { type } = pieces[0].as,
      kind = kindOf(type),
      rows = pieces.reduce((sum, piece) => sum + piece.rows, 0),
      size = kernels.panelBytes(kind, inputs),
      at = this.take(size * Math.ceil(rows / panel)),
      rowBytes = (inputs / tensorTypes[type].numbers) * tensorTypes[type].bytes,
      raw = heap.allocate(panel * rowBytes);
    let filled = 0,
      done = 0;
    const add = (bytes: Uint8Array, count: number, as: RepackedRows): void => {
      const stored = heap.bytes(raw, panel * rowBytes),
        each = bytes.length / count;
      for (let r = 0; r < count; ) {
        const more = Math.min(panel - filled, count - r);
        stored.set(as.pack(bytes.subarray(r * each, (r + more) * each)), filled * rowBytes);
        [r, filled] = [r + more, filled + more];
        if (filled < panel && done + filled < rows) continue;
        kernels.pack(kind, raw, rowBytes, filled, inputs, at + (done / panel) * size);
        [done, filled] = [done + filled, 0];
      }
    };
    try {
      for (const piece of pieces)
        if ('bytes' in piece) add(piece.bytes, piece.rows, piece.as);
        else await this.#readAll(piece, add);
    } finally {
      heap.free(raw, panel * rowBytes);
    }
    return { kind, rows, inputs, at, size, exact: this.#exact };
  }

  /** Reads the rows of a piece, a few at a time, into one of two buffers while the other one's rows are packed. */
  async #readAll(
    { rows, row, unit, first, read, as }: UnreadPiece,
    add: (bytes: Uint8Array, count: number, as: RepackedRows) => void,
  ): Promise<void> {
    const { spare } = this.#pool,
      some = unit * Math.max(1, Math.floor(readBytes / (unit * row))),
      buffers = [0, 1].map(() => spare.pop() ?? new Uint8Array(readBytes));
    const start = (from: number): Promise<Uint8Array> | undefined => {
      const bytes = Math.min(some, rows - from) * row,
        [into] = buffers.reverse();
      if (bytes <= 0) return undefined;
      const coming = read(first + from, bytes / row, bytes <= readBytes ? into.subarray(0, bytes) : undefined);
      coming.catch(() => {}); // thrown where it is awaited
      return coming;
    };
    let coming = start(0);
    for (let from = 0; coming !== undefined; from += some) {
      const bytes: Uint8Array = await coming;
      coming = start(from + some);
      add(bytes, bytes.length / row, as);
    }
    spare.push(...buffers);
  }

  free(): void {
    for (const { at, bytes } of this.#held.splice(0)) this.#pool.heap.free(at, bytes);
  }
}

/** Returns the bytes of a weight in panels. */
export function panelBytes({ kernels }: Pick<ThreadPool, 'kernels'>, { parts, inputs }: Matrix): number {
  return parts.reduce((sum, part) => {
    const held = part.type === 'IQ4_NL' || part.type === 'MXFP4' ? 'Q8_0' : part.type;
    return sum + Math.ceil(part.rows / panel) * kernels.panelBytes(kindOf(held), inputs);
  }, 0);
}

/** Rows, and the form that the module multiplies them in. */
interface Rows {
  readonly rows: number;
  readonly as: RepackedRows;
}
/** Rows to be read, from row `first` on, of `row` bytes each, `unit` rows together. */
interface UnreadPiece extends Rows {
  readonly first: number;
  readonly row: number;
  readonly unit: number;
  readonly read: RowsRead;
}
type Piece = UnreadPiece | (Rows & { readonly bytes: Uint8Array });

/** Returns runs of rows of one form, none across `cut`. */
function runs({ parts, inputs }: Matrix, cut: number): readonly (readonly Piece[])[] {
  const out: Piece[][] = [];
  let row = 0;
  for (const whole of parts)
    for (const part of split(pieceOf(whole, inputs), cut - row)) {
      const last = out.at(-1);
      if (last !== undefined && last[0].as.type === part.as.type && row !== cut) last.push(part);
      else out.push([part]);
      row += part.rows;
    }
  return out;
}

function pieceOf(part: MatrixPart, inputs: number): Piece {
  const { rows, type, read, unit = 1 } = part;
  if (!read) return { rows, as: repackRows(part), bytes: part.bytes };
  const { numbers, bytes } = tensorTypes[type],
    as = repackRows({ type, rows: 0, bytes: new Uint8Array(0) });
  return { rows, as, first: 0, row: (inputs / numbers) * bytes, unit, read };
}

/** Splits a part before its row `at`. */
function split(part: Piece, at: number): readonly Piece[] {
  if (!(at > 0 && at < part.rows)) return [part];
  if (!('bytes' in part))
    return [
      { ...part, rows: at },
      { ...part, rows: part.rows - at, first: part.first + at },
    ];
  const bytes = (at * part.bytes.length) / part.rows;
  return [
    { ...part, rows: at, bytes: part.bytes.subarray(0, bytes) },
    { ...part, rows: part.rows - at, bytes: part.bytes.subarray(bytes) },
  ];
}
