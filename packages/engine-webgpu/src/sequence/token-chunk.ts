import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { expectIds } from '@kv/engine';
import { concatArrays } from '@kv/checkpoints';
import { encodeEmbedding, type DeviceAngles } from '../operations.ts';
import type { DeviceState } from './device-state.ts';

/** Tokens that go through a layer's programs together; intermediate buffers have this many rows. */
const TOGETHER = 512;

/** Consecutive tokens of a block: hidden states `[m, D]`, positions and angles. */
export interface TokenChunk {
  readonly m: number;
  /** Their positions, on the host and on the device. */
  readonly at: Uint32Array;
  /** Positions that they are rotated by: the same until kept slots move together. */
  readonly turned: Uint32Array;
  readonly positions: Tensor;
  /** Returns a layer's rotary angles, if it has any: uploaded once for all layers with equal rotary settings. */
  angles(layer: number): DeviceAngles | undefined;
  x: Tensor;
}

/** Uploads the layers' rotary angles, each rope once: positions of one memory, then those of the next. */
export function anglesOf(
  rows: readonly (readonly [memory: DeviceState, positions: Uint32Array])[],
  commands: Commands,
): TokenChunk['angles'] {
  const known = new Map<unknown, DeviceAngles>(),
    [[{ model }]] = rows,
    count = rows.reduce((sum, [, { length }]) => sum + length, 0);
  return (layer) => {
    const rope = model.config.ropes[layer];
    if (rope.rotary === 0) return undefined;
    const found = known.get(rope);
    if (found !== undefined) return found;
    const own = rows.map(([{ decoder, rotaryLength }, positions]) => decoder.angles(layer, positions, rotaryLength)),
      [{ rotary }] = own,
      upload = (of: 'cos' | 'sin'): Tensor =>
        commands.upload(concatArrays(own.map((angles) => angles[of])), [count, rotary / 2]);
    const angles = { rotary, cos: upload('cos'), sin: upload('sin') };
    known.set(rope, angles);
    return angles;
  };
}

/** Returns tokens at positions, with all data to upload. */
export function chunkOf(memory: DeviceState, commands: Commands, at: Uint32Array, x: Tensor): TokenChunk {
  const m = at.length,
    turned = memory.rotations(at);
  return {
    m,
    at,
    turned,
    x,
    positions: commands.upload(at, [m]),
    angles: anglesOf([[memory, turned]], commands),
  };
}

/** Records the embedding of ids, of the tokens from position `first` on, in chunks of `TOGETHER`. */
export function embedFrom(
  memory: DeviceState,
  commands: Commands,
  ids: readonly number[],
  first: number,
): TokenChunk[] {
  const {
      decoder: { head, embedding },
      model: { config },
    } = memory,
    matrix = head.matrix(embedding!); // the device's programs give no rows back, so the decoder has it
  return Array.from({ length: Math.ceil(ids.length / TOGETHER) }, (_, i) => {
    const some = Uint32Array.from(ids.slice(i * TOGETHER, (i + 1) * TOGETHER)),
      tokens = commands.upload(some, [some.length]),
      { tensor } = encodeEmbedding(commands, tokens, some.length, matrix, config.embeddingScale);
    commands.free(tokens);
    return chunkOf(
      memory,
      commands,
      some.map((_, j) => first + i * TOGETHER + j),
      tensor,
    );
  });
}

/** Records the embedding of ids, the next tokens of a sequence. @throws KvError for an invalid id */
export function recordEmbedding(memory: DeviceState, commands: Commands, ids: readonly number[]): TokenChunk[] {
  expectIds(ids, memory.model.config.vocab);
  return embedFrom(memory, commands, ids, memory.length);
}
