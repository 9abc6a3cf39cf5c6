import { KvError } from '@kv/core';
import type { Angles } from '@kv/engine';
import type { Onnx, OnnxSession, OnnxTensor } from './runtime.ts';

/** A graph ready to run. */
export interface Session {
  /** Returns outputs by name. @throws KvError once destroyed. */
  run(feeds: Readonly<Record<string, OnnxTensor>>, outputs: readonly string[]): Promise<Float32Array[]>;
  destroy(): void;
}

/** Wraps a session. @param name the name that errors give it */
export function sessionOf(name: string, session: OnnxSession): Session {
  let alive: OnnxSession | undefined = session;
  return {
    async run(feeds, outputs) {
      if (alive === undefined) throw new KvError(name, 'the program was destroyed');
      const result = await alive.run(feeds, outputs);
      return outputs.map((output) => result[output].data as Float32Array);
    },
    destroy() {
      void alive?.release();
      alive = undefined;
    },
  };
}

/**
 * Checks angles. @throws KvError for angles of another width than `rotary`, or none, where `rotary` numbers are rotated
 */
export function expectAngles<A extends Angles | undefined>(
  angles: A,
  rotary: number | undefined,
  name: string,
): A & Angles {
  if (angles?.rotary === rotary) return angles as A & Angles;
  throw new KvError(
    name,
    `expected angles for ${rotary} numbers of a head, got ${angles === undefined ? 'none' : angles.rotary}`,
  );
}

type AngleFeeds = Readonly<Record<'cos' | 'sin', OnnxTensor> & Partial<Record<'scales', OnnxTensor>>>;
const made = new WeakMap<Angles, AngleFeeds>();

/** Returns the angles of m rows as inputs, with their scales if asked for. Every layer of a pass asks for the same. */
export function angleTensors(onnx: Onnx, angles: Angles, m: number, scaled: boolean): AngleFeeds {
  const tensor = (data: Float32Array, width = angles.rotary / 2): OnnxTensor =>
      new onnx.Tensor('float32', data, [m, width]),
    feeds = made.get(angles) ?? {
      cos: tensor(angles.cos),
      sin: tensor(angles.sin),
      ...(scaled && { scales: tensor(angles.scales ?? new Float32Array(m).fill(1), 1) }),
    };
  made.set(angles, feeds);
  return feeds;
}
