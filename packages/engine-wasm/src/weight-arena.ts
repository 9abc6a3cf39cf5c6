import type { Matrix, MatrixPart, RowsRead } from '@kv/checkpoints';
import type { WeightPanels } from './instructions.ts';
import { kindOf } from './kinds.ts';
import type { ThreadPool } from './thread-pool.ts';
import { tensorTypes } from '@kv/checkpoints';
import { repackRows } from './repack.ts';
import type { RepackedRows } from './repack.ts';

/** Outputs of a panel. */
const panel = 16;

/** Bytes of a weight that are read at a time, while those before are packed. */
const readBytes = 2 ** 22;

/** Rows of a weight that are packed together. */
interface Chunk {
  readonly rows: number;
  /** Returns the rows in the form that is multiplied, in `into` where they may be read there. */
  read(into: Uint8Array): Promise<Uint8Array>;
}

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
      chunks = pieces.flatMap((piece) => chunksOf(piece, rowBytes)),
      room = (panel + Math.max(...chunks.map((chunk) => chunk.rows))) * rowBytes,
      first = heap.allocate(2 * room),
      rooms = [first, first + room];
    /** Lets a chunk's rows come, where there are some, to a room, after rows that wait there for a whole panel. */
    const start = (chunk: Chunk | undefined, to: number): Promise<Uint8Array> | undefined => {
      const coming = chunk?.read(heap.bytes(to, chunk.rows * rowBytes));
      coming?.catch(() => {}); // thrown where it is awaited
      return coming;
    };
    let coming = start(chunks[0], rooms[0]);
    try {
      for (let i = 0, done = 0, left = 0; i < chunks.length; i++) {
        const [here, next] = i % 2 === 0 ? rooms : [rooms[1], rooms[0]],
          bytes = await coming!; // of every chunk
        if (!heap.holds(bytes)) heap.bytes(here + left * rowBytes, bytes.length).set(bytes);
        const held = left + chunks[i].rows,
          whole = i + 1 < chunks.length ? held - (held % panel) : held;
        left = held - whole;
        coming = start(chunks[i + 1], next + left * rowBytes);
        this.#pool.pack(kind, here, rowBytes, whole, inputs, at + (done / panel) * size, size);
        heap.bytes(next, left * rowBytes).set(heap.bytes(here + whole * rowBytes, left * rowBytes));
        done += whole;
      }
    } finally {
      await coming?.catch(() => {}); // which writes to its room until then
      heap.free(first, 2 * room);
    }
    return { kind, rows, inputs, at, size, exact: this.#exact };
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
/** Rows to be read, from row `first` on, `unit` rows together. */
interface UnreadPiece extends Rows {
  readonly first: number;
  readonly unit: number;
  readonly read: RowsRead;
}
type Piece = UnreadPiece | (Rows & { readonly bytes: Uint8Array });

/** Returns runs of rows of one form, none across `cut`. */
function runs({ parts }: Matrix, cut: number): readonly (readonly Piece[])[] {
  const out: Piece[][] = [];
  let row = 0;
  for (const whole of parts)
    for (const part of split(pieceOf(whole), cut - row)) {
      const last = out.at(-1);
      if (last !== undefined && last[0].as.type === part.as.type && row !== cut) last.push(part);
      else out.push([part]);
      row += part.rows;
    }
  return out;
}

function pieceOf(part: MatrixPart): Piece {
  const { rows, type, read, unit = 1 } = part;
  if (!read) return { rows, as: repackRows(part), bytes: part.bytes };
  return { rows, as: repackRows({ type, rows: 0, bytes: new Uint8Array(0) }), first: 0, unit, read };
}

/** Cuts a piece, whose rows are packed from `rowBytes` bytes each. */
function chunksOf(piece: Piece, rowBytes: number): readonly Chunk[] {
  const { rows, as } = piece,
    unit = 'bytes' in piece ? 1 : piece.unit,
    some = unit * Math.max(1, Math.floor(readBytes / (unit * rowBytes)));
  return Array.from({ length: Math.ceil(rows / some) }, (_, i) => {
    const from = i * some,
      count = Math.min(some, rows - from);
    return {
      rows: count,
      async read(into) {
        if ('bytes' in piece) {
          const each = piece.bytes.length / rows,
            bytes = piece.bytes.subarray(from * each, (from + count) * each);
          return as.pack?.(bytes) ?? bytes;
        }
        const bytes = await piece.read(piece.first + from, count, as.pack ? undefined : into);
        return as.pack?.(bytes) ?? bytes;
      },
    };
  });
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
