import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { message } from '../src/graph/protobuf.ts';
import { madeFolder } from './exported.ts';

/** An input or output of a graph; `float` for f32, else int64. */
interface Port {
  readonly name: string;
  readonly float?: boolean;
  readonly shape: readonly (number | string)[];
}
const FLOAT = 1,
  INT64 = 7,
  WORDS = 8;
const port = ({ name, float, shape }: Port): Uint8Array => {
  const dims = shape.map((size) => [1, message([typeof size === 'number' ? 1 : 2, size])] as const),
    tensor = message([1, float ? FLOAT : INT64], [2, message(...dims)]);
  return message([1, name], [2, message([1, tensor])]);
};
const node = (type: string, inputs: readonly string[], output: string): Uint8Array =>
  message(...inputs.map((name) => [1, name] as const), [2, output], [4, type]);

/** A graph that ONNX Runtime runs: logits by the last id alone, and every state handed on as it came. */
function graphOf(inputs: readonly Port[], states: readonly (readonly [from: Port, to: string])[]): Uint8Array {
  const table = message(
      [1, WORDS],
      [1, WORDS],
      [2, FLOAT],
      [8, 'table'],
      [9, new Uint8Array(new Float32Array(WORDS * WORDS).buffer)],
    ),
    graph = message(
      [1, node('Gather', ['table', 'input_ids'], 'logits')],
      ...states.map(([{ name }, to]) => [1, node('Identity', [name], to)] as const),
      [2, 'made'],
      [5, table],
      ...[...inputs, ...states.map(([from]) => from)].map((of) => [11, port(of)] as const),
      ...[
        { name: 'logits', float: true, shape: ['batch', 'length', WORDS] },
        ...states.map(([from, name]) => ({ ...from, name })),
      ].map((of) => [12, port(of)] as const),
    );
  return message([1, 8], [7, graph], [8, message([1, ''], [2, 17])]);
}

const IDS: Port = { name: 'input_ids', shape: ['batch', 'length'] },
  CONFIG = { vocab_size: WORDS, hidden_size: 8, num_attention_heads: 2, num_hidden_layers: 1, eos_token_id: 0 };
const state = (name: string, shape: Port['shape']): Port => ({ name, float: true, shape });

/** Small models of kinds that a policy cannot keep, as folders that transformers.js loads. */
const KINDS = {
  /** A decoder that was exported without a cache. */
  cacheless: {
    config: { ...CONFIG, model_type: 'llama' },
    graphs: { model: graphOf([IDS], []) },
  },
  encoderDecoder: {
    config: { ...CONFIG, model_type: 't5', is_encoder_decoder: true, d_kv: 4, num_heads: 2, num_layers: 1 },
    graphs: {
      encoder_model: graphOf([IDS], []),
      decoder_model_merged: graphOf(
        [IDS],
        [[state('past_key_values.0.decoder.key', [1, 2, 'past', 4]), 'present.0.decoder.key']],
      ),
    },
  },
  /** A convolution in addition to attention, as in LFM2. */
  hybrid: {
    config: { ...CONFIG, model_type: 'lfm2', num_key_value_heads: 2, layer_types: ['conv', 'full_attention'] },
    graphs: {
      model: graphOf(
        [IDS],
        [
          [state('past_conv.0', [1, 8, 3]), 'present_conv.0'],
          [state('past_key_values.1.key', [1, 2, 'past', 4]), 'present.1.key'],
          [state('past_key_values.1.value', [1, 2, 'past', 4]), 'present.1.value'],
        ],
      ),
    },
  },
} satisfies Record<string, { readonly config: object; readonly graphs: Record<string, Uint8Array> }>;

/** Writes one of them. */
export function made(kind: keyof typeof KINDS): string {
  const folder = madeFolder(),
    { config, graphs } = KINDS[kind];
  mkdirSync(join(folder, 'onnx'));
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeFileSync(join(folder, 'generation_config.json'), '{}');
  for (const [name, bytes] of Object.entries(graphs)) writeFileSync(join(folder, 'onnx', `${name}.onnx`), bytes);
  return folder;
}
