import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { expectIds } from '@kv/engine';
import type { Decoder } from '@kv/engine';
import { concatArrays } from '@kv/checkpoints';
import type { DeviceRunnable } from '../engine.ts';
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
  /** What each layer takes of the tokens in addition to x, `[m, layers * P]`, where the model has such inputs. */
  readonly layerInputs?: Tensor | undefined;
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
        ]) => decoder.angles(layer, positions, progress.rotaryLength),
      ),
      [{ rotary }] = own,
      upload = (of: 'cos' | 'sin'): Tensor =>
        commands.upload(concatArrays(own.map((angles) => angles[of])), [count, rotary / 2]);
    const angles = { rotary, cos: upload('cos'), sin: upload('sin') };
    known.set(rope, angles);
    return angles;
  };
}

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

/**
 * Records what each layer takes of tokens in addition to their embeddings x `[m, D]`, once the tokens' rows were read from
 * the model's file; undefined where the model has no such inputs.
 */
export async function recordLayerInputs(
  { perLayer }: Decoder<DeviceRunnable>,
  commands: Commands,
  ids: ArrayLike<number>,
  x: Tensor,
): Promise<Tensor | undefined> {
  if (!perLayer) return undefined;
  const rows = await perLayer.rows(ids),
    given = commands.upload(rows, [ids.length, rows.length / ids.length]),
    [inputs] = perLayer.program.encode(commands, [x, given], ids.length);
  commands.free(given);
  return inputs;
}

/** Records the embedding of ids, of the tokens from position `first` on, in chunks of `TOGETHER`. */
export async function embedFrom(
  caches: DeviceState,
  commands: Commands,
  ids: readonly number[],
  first: number,
): Promise<TokenChunk[]> {
  const {
      decoder,
      context: {
        model: { config },
      },
    } = caches,
    matrix = decoder.head.matrix(decoder.embedding!), // the device's programs give no rows back, so the decoder has it
    chunks: TokenChunk[] = [];
  for (let from = 0; from < ids.length; from += TOGETHER) {
    const some = Uint32Array.from(ids.slice(from, from + TOGETHER)),
      tokens = commands.upload(some, [some.length]),
      { tensor } = encodeEmbedding(commands, tokens, some.length, matrix, config.embeddingScale),
      at = some.map((_, j) => first + from + j);
    commands.free(tokens);
    const layerInputs = await recordLayerInputs(decoder, commands, some, tensor);
    chunks.push({ ...chunkOf(caches, commands, at, tensor), layerInputs });
  }
  return chunks;
}

/** Records the embedding of ids, the next tokens of a sequence. @throws KvError for an invalid id */
export async function recordEmbedding(
  caches: DeviceState,
  commands: Commands,
  ids: readonly number[],
): Promise<TokenChunk[]> {
  expectIds(ids, caches.context.model.config.vocab);
  return embedFrom(caches, commands, ids, caches.context.progress.length);
}
