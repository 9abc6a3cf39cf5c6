import { KvError } from '@kv/core';
import { show, type JsonFields } from '../read/fields.ts';
import { literal, parts } from './parts.ts';
import { SPACE } from './token-bytes.ts';

/** What the decoder of a tokenizer.json makes of tokens. */
export interface TokenDecoding {
  /** Whether tokens are written in GPT-2's byte alphabet; else U+2581 is a space. */
  readonly byteLevel: boolean;
  /** Whether `<0xNN>` is a byte. */
  readonly bytes: boolean;
  /** Whether a space that begins the text is removed. */
  readonly dummyPrefix: boolean;
}

/**
 * Reads the `decoder` of a tokenizer.json.
 * @throws KvError naming a part that is unknown, or that would act otherwise because of where it stands
 */
export function tokenDecoding(json: unknown, where: string): TokenDecoding {
  const all = parts(json, 'decoders', where);
  if (all.length === 1 && all[0].type === 'ByteLevel') return { byteLevel: true, bytes: false, dummyPrefix: false };
  const stages = all.map(stageOf),
    wrong = stages.findIndex((stage, at) => stage === undefined || stage < (stages[at - 1] ?? 0)),
    dropping = all.filter(dropsSpace);
  const odd = all[wrong] ?? dropping[1];
  if (odd !== undefined || !all.some(({ type }) => type === 'Replace' || type === 'Metaspace'))
    throw new KvError(
      where,
      `expected a decoder of ByteLevel, or of Replace (of U+2581 by a space) or Metaspace, ByteFallback, Fuse and Strip (of one space that begins the text), in this order, got ${show(odd ?? json)}`,
    );
  return { byteLevel: false, bytes: all.some(({ type }) => type === 'ByteFallback'), dummyPrefix: dropping.length > 0 };
}

/** Returns whether a part acts on tokens (0), joins them (1) or acts on the text (2); undefined for an unknown one. */
function stageOf(part: JsonFields): number | undefined {
  const { type, content, start = 0, stop = 0 } = part;
  if (type === 'Replace' && literal(part) === SPACE && content === ' ') return 0;
  if (type === 'Metaspace' && (part.replacement ?? SPACE) === SPACE) return 0;
  if (type === 'ByteFallback') return 0;
  if (type === 'Fuse') return 1;
  return type === 'Strip' && content === ' ' && (start === 0 || start === 1) && stop === 0 ? 2 : undefined;
}

/** Returns whether a part removes a leading space. */
function dropsSpace(part: JsonFields): boolean {
  if (part.type === 'Strip') return part.start === 1;
  return part.type === 'Metaspace' && part.prepend_scheme !== 'never' && part.add_prefix_space !== false;
}
