import type { Access, CodeStream } from './code-stream.ts';
import { addressOf, modes, ops, type WeightPanels } from './instructions.ts';
import { isFloat } from './kinds.ts';
import type { BufferRange, BufferSlice } from './layout.ts';

/** Rows rounded to 8 bits: the codes, and each block's scale and sum. */
export interface RoundedRows {
  readonly codes: BufferSlice;
  readonly meta: BufferSlice;
}

/** Activations rounded to 8 bits, as products with quantised weights read them: one value at a time, rounded once. */
export class RoundedActivations {
  readonly #code: CodeStream;
  /** The value last rounded. */
  #last: ({ readonly x: BufferSlice } & RoundedRows) | undefined;
  #codes: BufferRange | undefined;
  #meta: BufferRange | undefined;

  constructor(code: CodeStream) {
    this.#code = code;
  }

  /** Writes the rounding of x, if one of these parts needs it, and returns what a product of x with them reads. */
  read(x: BufferSlice, parts: readonly WeightPanels[]): readonly Access[] {
    if (parts.some(({ exact, kind }) => !exact && !isFloat(kind)) && this.of(x) === undefined)
      this.#round(x, parts[0].inputs);
    const rounded = this.of(x);
    return [[x, 'all'], ...(rounded ? [[rounded.codes, 'all'] as const, [rounded.meta, 'all'] as const] : [])];
  }

  /** Returns x as it was rounded last, if it was. */
  of({ room, at }: BufferSlice): RoundedRows | undefined {
    return this.#last?.x.room === room && this.#last.x.at === at ? this.#last : undefined;
  }

  /** Forgets what was rounded of a buffer that is freed. */
  forget(room: BufferRange): void {
    if (this.#last?.x.room === room) this.#last = undefined;
  }

  #round(x: BufferSlice, inputs: number): void {
    const code = this.#code,
      { rows, share } = code,
      base = rows === 1 ? 2 : 1,
      stride = inputs * code.sizes.activation;
    // one buffer for all: the previous values are no longer read, as threads synchronise after their product
    this.#codes = this.#atLeast(this.#codes, base, rows * stride);
    this.#meta = this.#atLeast(this.#meta, base, (rows * inputs) / 2);
    const codes: BufferSlice = { base, at: this.#codes.at, stride, room: this.#codes },
      meta: BufferSlice = { base, at: this.#meta.at, stride: inputs / 2, room: this.#meta };
    code.use(
      [[x, share]],
      [
        [codes, share],
        [meta, share],
      ],
    );
    code.put(ops.quantise, addressOf(x), x.stride, inputs, addressOf(codes), addressOf(meta), modes[share]);
    this.#last = { x, codes, meta };
  }

  #atLeast(room: BufferRange | undefined, base: 1 | 2, bytes: number): BufferRange {
    const { layout } = this.#code;
    if (room !== undefined && room.bytes >= bytes) return room;
    if (room !== undefined) layout.give(room);
    return layout.take(base, bytes);
  }
}
