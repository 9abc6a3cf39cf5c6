import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { expectIds, type Angles } from '@kv/engine';
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
  readonly rotations: Uint32Array;
  readonly positions: Tensor;
  /** Returns a layer's rotary angles, if it has any: uploaded once for all layers with equal rotary settings. */
  angles(layer: number): DeviceAngles | undefined;
  x: Tensor;
}

/** Uploads the layers' rotary angles, each rope once: positions of one caches, then those of the next. */
export function anglesOf(
  rows: readonly (readonly [caches: DeviceState, positions: Uint32Array])[],
  commands: Commands,
): TokenChunk['angles'] {
  const known = new Map<unknown, DeviceAngles>(),
    [[{ context }]] = rows,
    count = rows.reduce((sum, [, { length }]) => sum + length, 0);
  return (layer) => {
    const rope = context.model.config.ropes[layer];
    if (rope.rotary === 0) return undefined;
    const found = known.get(rope);
    if (found !== undefined) return found;
    const own = rows.map(
        ([
          {
            decoder,
            context: { progress },
          },
          positions,
        ]) => decoder.angles(layer, positions, progress.rotaryLength, progress.shift),
      ),
      [{ rotary }] = own,
      upload = (of: 'cos' | 'sin'): Tensor =>
        commands.upload(concatArrays(own.map((angles) => angles[of])), [count, rotary / 2]);
    const scaled = own.some(({ scales }) => scales),
      angles = {
        rotary,
        cos: upload('cos'),
        sin: upload('sin'),
        ...(scaled && { scales: commands.upload(concatArrays(own.map(scalesOf)), [count]) }),
      };
    known.set(rope, angles);
    return angles;
  };
}

/** Returns what the queries of rows are multiplied by. */
const scalesOf = ({ rotary, cos, scales }: Angles): Float32Array =>
  scales ?? new Float32Array((2 * cos.length) / rotary).fill(1);

/** Returns tokens at positions, with all data to upload. */
export function chunkOf(caches: DeviceState, commands: Commands, at: Uint32Array, x: Tensor): TokenChunk {
  const m = at.length,
    rotations = caches.context.progress.rotations(at);
  return {
    m,
    at,
    rotations,
    x,
    positions: commands.upload(at, [m]),
    angles: anglesOf([[caches, rotations]], commands),
  };
}

/** Records the embedding of ids, of the tokens from position `first` on, in chunks of `TOGETHER`. */
export function embedFrom(
  caches: DeviceState,
  commands: Commands,
  ids: readonly number[],
  first: number,
): TokenChunk[] {
  const {
      decoder: { head, embedding },
      context: {
        model: { config },
      },
    } = caches,
    matrix = head.matrix(embedding!); // the device's programs give no rows back, so the decoder has it
  return Array.from({ length: Math.ceil(ids.length / TOGETHER) }, (_, i) => {
    const some = Uint32Array.from(ids.slice(i * TOGETHER, (i + 1) * TOGETHER)),
      tokens = commands.upload(some, [some.length]),
      { tensor } = encodeEmbedding(commands, tokens, some.length, matrix, config.embeddingScale);
    commands.free(tokens);
    return chunkOf(
      caches,
      commands,
      some.map((_, j) => first + i * TOGETHER + j),
      tensor,
    );
  });
}

/** Records the embedding of ids, the next tokens of a sequence. @throws KvError for an invalid id */
export function recordEmbedding(caches: DeviceState, commands: Commands, ids: readonly number[]): TokenChunk[] {
  expectIds(ids, caches.context.model.config.vocab);
  return embedFrom(caches, commands, ids, caches.context.progress.length);
}
