import { attendBlock, attendTokens, type AttentionShape } from './attention-code.ts';
import { convolve, type ConvolutionShape } from './convolution-code.ts';
import { CodeStream, type Sizes } from './code-stream.ts';
import { writeDelta, type DeltaShape } from './delta-code.ts';
import { addressOf as at, modes, ops, real, type WeightPanels } from './instructions.ts';
import type { BufferSlice } from './layout.ts';
import { RoundedActivations } from './rounded-activations.ts';
import { writeSpace, type SpaceShape } from './space-code.ts';

/**
 * Flags added to a weight's kind: activations stay f32; each of a few rows gets the result that it would have alone.
 */
const exactly = 256,
  few = 512,
  /** An activation of kernel/rows.ts. */
  sigmoid = 2;

/**
 * Writes operations for one row, or for up to `rows`. For one row every thread computes cheap operations itself, so
 * that threads synchronise only around products and attention; for many rows each thread takes a share of the rows.
 */
export class BytecodeWriter {
  readonly stream: CodeStream;
  /** Code offset after a block's keys and values last joined a cache, or its rows a state. */
  appended = 0;
  readonly #apart: boolean;
  readonly #rounded: RoundedActivations;

  /**
   * @param apart whether rows are tokens of several sequences, each with the result, to the bit, that it would have
   * alone
   */
  constructor(sizes: Sizes, rows: number, apart: boolean = false) {
    this.stream = new CodeStream(sizes, rows);
    this.#rounded = new RoundedActivations(this.stream);
    this.#apart = apart;
  }

  free({ room }: BufferSlice): void {
    this.#rounded.forget(room);
    this.stream.layout.give(room);
  }

  columns(x: BufferSlice, from: number): BufferSlice {
    return { ...x, at: x.at + 4 * from };
  }

  /** Writes the norm of runs; there are `gains` numbers of the gain, of one run or of the whole width. */
  norm(x: BufferSlice, width: number, gain: number, gains: number, run: number, eps: number): BufferSlice {
    const out = this.#out(width, x);
    this.stream.put(
      ops.norm,
      at(x),
      x.stride,
      at(out),
      out.stride,
      width,
      run,
      gain,
      gains,
      real(eps),
      modes[this.stream.share],
    );
    return out;
  }

  add(x: BufferSlice, y: BufferSlice, width: number): BufferSlice {
    const out = this.#out(width, x, y),
      { stride } = out;
    this.stream.put(ops.add, at(x), x.stride, at(y), y.stride, at(out), stride, width, modes[this.stream.share]);
    return out;
  }

  /** @param scaled whether the row's scale multiplies it too */
  rope(x: BufferSlice, heads: number, headDim: number, rotary: number, scaled: boolean): BufferSlice {
    const out = this.#out(heads * headDim, x),
      { stream } = this;
    stream.put(ops.rope, at(x), x.stride, at(out), out.stride, heads, headDim, rotary, modes[stream.share], +scaled);
    return out;
  }

  /** Writes cap * tanh(x / cap). */
  softcap(x: BufferSlice, width: number, cap: number): BufferSlice {
    return this.#bend(x, width, cap, 0);
  }

  /** Writes x * by. */
  scale(x: BufferSlice, width: number, by: number): BufferSlice {
    return this.#bend(x, width, by, 1);
  }

  /** Writes an elementwise operation; a shared single row is divided by columns. */
  #bend(x: BufferSlice, width: number, by: number, how: 0 | 1): BufferSlice {
    const { stream } = this,
      out = stream.value(width, true),
      mode = stream.rows === 1 && x.base === 1 ? 'columns' : stream.share;
    stream.use([[x, mode]], [[out, mode]]);
    stream.put(ops.bend, at(x), x.stride, at(out), out.stride, width, real(by), modes[mode], how);
    return out;
  }

  /** Writes x times the parts of a weight, concatenated by rows. */
  product(x: BufferSlice, parts: readonly WeightPanels[], bias: number): BufferSlice {
    const { stream } = this,
      width = parts.reduce((sum, { rows }) => sum + rows, 0),
      out = stream.value(width, true);
    let from = 0;
    for (const part of parts) {
      const { kind, word, inputs } = this.#weight(part),
        to = this.columns(out, from);
      stream.use(this.#rounded.read(x, [part]), [[out, 'pieces']], true);
      const { codes, meta } = this.#rounded.of(x) ?? { codes: x, meta: x };
      stream.put(ops.product, kind, word, inputs, at(codes), at(meta), at(x), x.stride);
      stream.put(at(to), out.stride, part.rows, bias === 0 ? 0 : bias + 4 * from, this.#piece(part.rows));
      from += part.rows;
    }
    return out;
  }

  /** Writes activation(x times gate) * (x times up). */
  gated(x: BufferSlice, gate: WeightPanels, up: WeightPanels, bias: number, how: number): BufferSlice {
    const { stream } = this,
      out = stream.value(gate.rows, true),
      ups = stream.layout.take(2, 64 * stream.rows);
    stream.use(this.#rounded.read(x, [gate, up]), [[out, 'pieces']], true);
    const { codes, meta } = this.#rounded.of(x) ?? { codes: x, meta: x },
      [a, b] = [this.#weight(gate), this.#weight(up)];
    stream.put(ops.gated, how, a.kind, a.word, b.kind, b.word, a.inputs, at(codes), at(meta), at(x), x.stride);
    stream.put(at(out), out.stride, gate.rows, this.#piece(gate.rows), ups.at + 2);
    stream.put(bias, bias === 0 ? 0 : bias + 4 * gate.rows, up.size);
    stream.layout.give(ups);
    return out;
  }

  /** Writes activation(gates) * ups of rows `[gates | ups]`. */
  gate(x: BufferSlice, width: number, how: number): BufferSlice {
    return this.gatedBy(x, this.columns(x, width), width, how);
  }

  /** Writes attention of the rows, whose keys and values are appended to the cache. */
  attention(q: BufferSlice, k: BufferSlice, v: BufferSlice, shape: AttentionShape): BufferSlice {
    const { stream } = this,
      rows = { q, k, v };
    if (stream.rows === 1 || this.#apart) return attendTokens(stream, rows, shape);
    return attendBlock(stream, rows, shape, () => {
      this.appended = stream.length;
    });
  }

  /** Writes a short convolution of rows `[B | C | u]`, which they join the state of. */
  convolution(x: BufferSlice, shape: ConvolutionShape): BufferSlice {
    const out = convolve(this.stream, x, shape);
    this.appended = this.stream.length;
    return out;
  }

  /** Writes a gated delta rule of rows `[q | k | v | z | b | a]`, which they join the state of. */
  delta(x: BufferSlice, shape: DeltaShape): BufferSlice {
    const out = writeDelta(this.stream, x, shape);
    this.appended = this.stream.length;
    return out;
  }

  /** Writes a state space of rows `[z | x | B | C | dt]`, which they join the state of. */
  space(x: BufferSlice, shape: SpaceShape): BufferSlice {
    const out = writeSpace(this.stream, x, shape);
    this.appended = this.stream.length;
    return out;
  }

  /** Writes x * sigmoid(gate), where each gate is that of `run` numbers. */
  outputGate(x: BufferSlice, gate: BufferSlice, width: number, run: number): BufferSlice {
    if (run === 1) return this.gatedBy(gate, x, width, sigmoid);
    const out = this.#out(width, x, gate),
      rows = [at(gate), gate.stride, at(x), x.stride, at(out), out.stride];
    this.stream.put(ops.gateRuns, ...rows, width, run, modes[this.stream.share]);
    return out;
  }

  /** Writes activation(gates) * ups. */
  gatedBy(gates: BufferSlice, ups: BufferSlice, width: number, how: number): BufferSlice {
    const out = this.#out(width, gates, ups),
      { stride } = out;
    this.stream.put(
      ops.gate,
      how,
      at(gates),
      gates.stride,
      at(ups),
      ups.stride,
      at(out),
      stride,
      width,
      modes[this.stream.share],
    );
    return out;
  }

  /** Allocates the result of a cheap operation on these values. */
  #out(width: number, ...inputs: readonly BufferSlice[]): BufferSlice {
    const { stream } = this,
      { share } = stream,
      out = stream.value(width);
    stream.use(
      inputs.map((x) => [x, share]),
      [[out, share]],
    );
    return out;
  }

  /** Returns the number of panels that a thread claims at a time. */
  #piece(outputs: number): number {
    const { threads } = this.stream.sizes;
    return Math.max(1, Math.ceil(outputs / 16 / (threads === 1 ? 1 : 6 * threads)));
  }

  /** Returns the words of a weight. */
  #weight({ kind, at: word, inputs, exact }: WeightPanels): { kind: number; word: number; inputs: number } {
    return { kind: kind + (exact ? exactly : 0) + (this.#apart ? few : 0), word, inputs };
  }
}
