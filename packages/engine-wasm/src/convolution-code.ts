import type { ConvolutionKernel } from '@kv/engine';
import type { CodeStream } from './code-stream.ts';
import { addressOf as at, ops } from './instructions.ts';
import type { BufferSlice } from './layout.ts';
import type { WeightArena } from './weight-arena.ts';

/** A layer's short convolution. */
export interface ConvolutionShape {
  readonly channels: number;
  readonly length: number;
  /** Addresses of its taps `[length, channels]` and of its bias. */
  readonly taps: number;
  readonly bias: number;
  /** Bytes from the first cache to the word that holds the address of its state. */
  readonly state: number;
}

/** Returns the shape of a layer's convolution, with its kernel in the arena's memory. */
export const placeConvolution = (
  arena: WeightArena,
  { channels, length, taps, bias }: ConvolutionKernel,
  state: number,
): ConvolutionShape => ({
  channels,
  length,
  taps: arena.array(taps),
  bias: arena.array(bias),
  state,
});

/** Writes the short convolution of rows `[B | C | u]`, one after the other; threads share the channels. */
export function convolve(
  code: CodeStream,
  x: BufferSlice,
  { channels, length, taps, bias, state }: ConvolutionShape,
): BufferSlice {
  const out = code.value(channels, true);
  code.use([[x, 'all']], [[out, 'pieces']]);
  code.put(ops.convolve, state, at(x), x.stride, at(out), out.stride, channels, taps, length, bias);
  return out;
}
