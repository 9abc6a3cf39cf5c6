import { KvError } from '@kv/core';
import { show, type JsonFields } from '../read/fields.ts';

/**
 * Features of decoders that none here has, by the fields of config.json or the GGUF keys that indicate them; those of a
 * text model within a larger one count too.
 */
const lacking: readonly (readonly [what: string, fields: readonly string[], unless?: string])[] = [
  ['latent attention', ['kv_lora_rank', 'attention.kv_lora_rank']],
  ['the attention of RWKV', ['wkv.head_size']],
  ['ALiBi', ['alibi', 'attention.max_alibi_bias']],
  ['learned positions', ['n_positions']],
  ['encoders', ['encoder_layers', 'num_encoder_layers']],
];

/** Returns an error sentence with the known architectures and the features that the file needs and none of them has. */
export function unknownArchitecture(
  where: string,
  {
    field,
    known,
    got,
    fields: { text_config: text, ...fields },
    prefix = '',
  }: {
    readonly field: string;
    readonly known: readonly string[];
    readonly got: unknown;
    readonly fields: JsonFields;
    /** Prefix of every key in a GGUF file. */
    readonly prefix?: string;
  },
): KvError {
  const all: JsonFields = { ...fields, ...(typeof text === 'object' && text) };
  const missing = lacking.flatMap(([what, names]) => {
    const said = names.find((name) => asks(all[prefix + name]));
    return said === undefined ? [] : [`${what} (${prefix}${said})`];
  });
  return new KvError(
    where,
    `${field} must be one of ${known.join(', ')}, got ${show(got)}${missing.length > 0 ? `; none of them has ${missing.join(', ')}` : ''}`,
  );
}

const asks = (value: unknown): boolean => value != null && value !== false && value !== 0;
