import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { ortFolder } from '@kv/model-testing/ort';

interface Tensor {
  readonly data: Float32Array;
  readonly dims: readonly number[];
}
interface Session {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  run(feeds: Record<string, Tensor>): Promise<Record<string, Tensor>>;
  release(): Promise<void>;
}
const ort = createRequire(new URL('package.json', ortFolder))('onnxruntime-node') as {
  readonly InferenceSession: { create(path: string): Promise<Session> };
  readonly Tensor: new (
    type: 'float32' | 'int64',
    data: Float32Array | BigInt64Array,
    dims: readonly number[],
  ) => Tensor;
};

/** Returns the logits of every position of an exported model, with ids fed in blocks over its cache. */
export async function logitsOf(
  folder: string,
  file: string,
  ids: readonly number[],
  block: number,
): Promise<Float32Array[]> {
  const session = await ort.InferenceSession.create(join(folder, 'onnx', file)),
    config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as Record<string, number>,
    heads = config.num_key_value_heads,
    width = config.head_dim ?? config.hidden_size / config.num_attention_heads,
    whole = (numbers: readonly number[]): Tensor =>
      new ort.Tensor('int64', BigInt64Array.from(numbers, BigInt), [1, numbers.length]),
    out: Float32Array[] = [];
  let past = Object.fromEntries(
    session.inputNames
      .filter((name) => name.startsWith('past'))
      .map((name) => [name, new ort.Tensor('float32', new Float32Array(0), [1, heads, 0, width])]),
  );
  for (let at = 0; at < ids.length; at += block) {
    const part = ids.slice(at, at + block),
      feeds: Record<string, Tensor> = {
        input_ids: whole(part),
        attention_mask: whole(new Array<number>(at + part.length).fill(1)),
        position_ids: whole(part.map((_, i) => at + i)),
        ...past,
      };
    const result = await session.run(Object.fromEntries(session.inputNames.map((name) => [name, feeds[name]])));
    past = Object.fromEntries(
      Object.keys(past).map((name) => [name, result[name.replace('past_key_values', 'present')]]),
    );
    const { data, dims } = result.logits;
    for (let i = 0; i < part.length; i++) out.push(data.slice(i * dims[2], (i + 1) * dims[2]));
  }
  await session.release();
  return out;
}
