import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import type { DeviceRunnable } from '../engine.ts';
import { encodeEmbedding, type DeviceAngles } from '../operations.ts';
import type { DeviceMemory } from './memory.ts';

/** Tokens that go through a layer's programs together: what lies between them is as large as that. */
const TOGETHER = 512;

/** Some of a block's tokens: hidden states `[m, D]`, and what a layer makes of them. */
export interface Part {
  readonly m: number;
  /** Their positions, on the host and on the device. */
  readonly at: Uint32Array;
  readonly positions: Tensor;
  readonly angles: DeviceAngles;
  x: Tensor;
}

/** Tokens at positions, with everything that goes up. */
export function partOf({ model: { decoder }, rotaryLength }: DeviceMemory, commands: Commands, at: Uint32Array, x: Tensor): Part {
  const m = at.length, { rotary, cos, sin } = decoder.angles(at, rotaryLength);
  return { m, at, x, positions: commands.upload(at, [m]), angles: { rotary, cos: commands.upload(cos, [m, rotary / 2]), sin: commands.upload(sin, [m, rotary / 2]) } };
}

/** Records the embedding of ids, the next tokens of a sequence. @throws KvError for what has no room, or is no id */
export function embedded(memory: DeviceMemory, commands: Commands, ids: readonly number[], where: string): Part[] {
  const { length, window, model: { decoder, config } } = memory, { prepared: { head, embedding } } = decoder;
  if (length + ids.length > window) throw new KvError(where, `must fit the model's context of ${window} tokens on a device, where kept slots are not moved together, got ${length + ids.length}`);
  for (const id of ids) if (!(Number.isInteger(id) && id >= 0 && id < config.vocab)) throw new KvError('decoder', `a token id must be an integer from 0 to ${config.vocab - 1}, got ${id}`);
  const matrix = (head as DeviceRunnable).matrix(embedding);
  return Array.from({ length: Math.ceil(ids.length / TOGETHER) }, (_, i) => {
    const some = Uint32Array.from(ids.slice(i * TOGETHER, (i + 1) * TOGETHER)), tokens = commands.upload(some, [some.length]), { tensor } = encodeEmbedding(commands, tokens, some.length, matrix, config.embeddingScale);
    commands.free(tokens);
    return partOf(memory, commands, some.map((_, j) => length + i * TOGETHER + j), tensor);
  });
}
