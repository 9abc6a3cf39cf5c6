import type { Angles, HeadLayout, Program, HostRunnable } from '@kv/engine';
import { rotaryOf, scalesRows } from './program-graph.ts';
import type { Onnx, OnnxTensor } from './runtime.ts';
import { angleTensors, expectAngles, type Session } from './session.ts';
import { noToken, tokenFeeds, type TokenFeeds } from './token-attention.ts';

/**
 * Prepares the session of a `layerGraph`. `finish` also computes `next`, whose outputs are returned if `next` is then
 * called for the same rows and angles.
 */
export function preparedLayer(
  onnx: Onnx,
  heads: HeadLayout,
  { name, inputs: [x, attended] }: Program,
  next: Program | undefined,
  { run, destroy }: Session,
  masks: Map<string, OnnxTensor>,
): readonly [finish: HostRunnable, next: HostRunnable | undefined] {
  const tensor = (data: Float32Array, m: number, width: number): OnnxTensor =>
    new onnx.Tensor('float32', data, [m, width]);
  const none = new Float32Array(0),
    D = x.width,
    nobody = noToken(onnx, heads),
    [noX, noAttended] = [tensor(none, 0, D), tensor(none, 0, attended.width)];
  const rotary = next && rotaryOf(next),
    scaled = next !== undefined && scalesRows(next),
    names = ['y0', ...(next?.outputs ?? []).map((_, i) => `y${i + 1}`)],
    more = next && { rows: noX };
  const turn = (m: number, angles?: Angles): Readonly<Record<string, OnnxTensor>> => {
    if (rotary === undefined) return {};
    const zeros = (): Float32Array => new Float32Array((m * rotary) / 2);
    return angleTensors(onnx, angles ?? { rotary, cos: zeros(), sin: zeros() }, m, scaled);
  };
  /** The angles that `next` uses; undefined if it rotates no heads. */
  const asked = (angles: Angles | undefined): Angles | undefined => (rotary === undefined ? undefined : angles);
  const ahead = new WeakMap<
    Float32Array,
    { readonly angles: Angles | undefined; readonly outputs: readonly Float32Array[] }
  >();
  const finish = async (
    rows: Float32Array,
    m: number,
    attended: OnnxTensor,
    token: TokenFeeds,
    angles: Angles | undefined,
  ): Promise<Float32Array[]> => {
    const fits = rotary === undefined || (angles?.rotary === rotary && angles.cos.length === (m * rotary) / 2);
    const [y, ...outputs] = await run(
      { ...more, ...turn(m, fits ? angles : undefined), ...token, x: tensor(rows, m, D), attended },
      names,
    );
    if (fits) ahead.set(y, { angles: asked(angles), outputs });
    return [y];
  };
  return [
    {
      run: async ([rows, given], m, angles) =>
        m === 0 ? [none] : finish(rows, m, tensor(given, m, attended.width), nobody, angles),
      runAfter(attention, rows, angles) {
        const token = tokenFeeds(onnx, heads, attention, masks);
        if (token === undefined) return undefined;
        if (attention.counters !== undefined) attention.counters.fused++;
        return finish(rows, 1, noAttended, token, angles);
      },
      destroy,
    },
    next && {
      async run([rows], m, angles) {
        if (m === 0) return next.outputs.map(() => none);
        const done = ahead.get(rows);
        if (done !== undefined && done.angles === asked(angles)) return done.outputs;
        const turned = turn(
          m,
          rotary === undefined ? undefined : expectAngles(angles, rotary, `${name}, ${next.name}`),
        );
        return run({ ...nobody, ...turned, x: noX, attended: noAttended, rows: tensor(rows, m, D) }, names.slice(1));
      },
      destroy,
    },
  ];
}
