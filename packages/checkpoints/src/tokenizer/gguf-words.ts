import type { JsonFields } from '../read/fields.ts';
import { GPT2_WORDS, splitAt } from './pre-tokenizer.ts';

/**
 * Pre-tokenizers that a GGUF file's `tokenizer.ggml.pre` names, in the form of a tokenizer.json, with the other
 * settings that llama.cpp ties to the name.
 */
export interface GgufWordRules {
  readonly cuts: readonly JsonFields[];
  /** Whether a word in the vocabulary is a token, regardless of merges. */
  readonly ignoreMerges?: boolean;
  /** Whether a text starts with the beginning token unless the file says otherwise. */
  readonly addBos?: boolean;
  readonly normalizer?: JsonFields;
}

const CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const REST = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const cl100k = (digits: string): string => `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}|${REST}`;
/** Words cut at changes from small to capital letters (Tekken and o200k); `suffix` may follow. */
const cased = (suffix: string, digits: string): string => {
  const [upper, lower] = ['[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'];
  const rest = REST.replace('[\\r\\n]*', '[\\r\\n/]*');
  return `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${suffix}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${suffix}|${digits}|${rest}`;
};

/** Cased letters of Latin, Greek, Cyrillic and other scripts, as DeepSeek LLM lists them. */
const CASED_LETTERS = [
  'A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-',
  '\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-',
  '\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15',
  '\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4',
  '\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4',
  '\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-',
  '\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee',
  '\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-',
  '\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-',
  '\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}',
].join('');
const HAN_HANGUL = '[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+';
const HAN_KANA = '[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+';
/** DeepSeek V3's expression; `rest` matches line breaks. */
const deepseek3 = (rest: string): string =>
  `[!"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_\`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+${rest}|\\s+(?!\\S)|\\s+`;

const cut = (...regexes: string[]): GgufWordRules => ({ cuts: regexes.map(splitAt) });
const gpt2 = cut(GPT2_WORDS);
const digits = cut('\\p{N}', GPT2_WORDS);
const llama3 = cut(cl100k('\\p{N}{1,3}'));
const llama3Whole: GgufWordRules = { ...llama3, ignoreMerges: true, addBos: true };
const qwen2 = cut(cl100k('\\p{N}'));
const qwen35 = cut(
  `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|${REST.replace('\\p{L}', '\\p{L}\\p{M}')}`,
);
const o200k = cut(cased(`${CONTRACTIONS}?`, '\\p{N}{1,3}'));
const deepseekV3 = cut('\\p{N}{1,3}', HAN_KANA, deepseek3('[\\r\\n]*|\\s*[\\r\\n]+'));
const bloom = ' ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+';
const bailing = cut(
  `'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|${REST.replace('[\\r\\n]+', '[\\r\\n]')}`,
);
const named = (words: GgufWordRules, ...names: string[]): [string, GgufWordRules][] =>
  names.map((name) => [name, words]);

/**
 * Rules by the names of llama.cpp's `llama-vocab.cpp`, with its expressions or those of the tokenizer.json that it
 * adapts. Not included are those that it cuts by functions of its own (kimi-k2, afmoe), at zero-width matches
 * (superbpe, tiny_aya, cohere2moe), or not by bytes (gemma4, sarvam-moe, whitespace), and models of embeddings.
 */
export const WORDS: ReadonlyMap<string, GgufWordRules> = new Map<string, GgufWordRules>([
  ['default', cut('[\\p{P}\\$\\+<=>\\^~\\|]+', GPT2_WORDS, '\\p{N}+', '[0-9][0-9][0-9]')],
  ...named(gpt2, 'gpt-2', 'phi-2', 'mpt', 'olmo', 'jais', 'trillion', 'granite-docling', 'exaone4', 'gigachat'),
  ...named(gpt2, 'a.x-4.0', 'mellum', 'modern-bert', 'jina-es', 'jina-de', 'jina-v2-es', 'jina-v2-de'),
  ...named(llama3Whole, 'llama3', 'llama-v3', 'llama-bpe', 'falcon3', 'falcon-h1', 'pixtral', 'midm-2.0', 'lfm2'),
  ...named(llama3Whole, 'jina-v5-nano'),
  ...named(llama3, 'dbrx', 'smaug-bpe', 'chatglm-bpe'),
  ...named({ ...llama3, ignoreMerges: true }, 'glm4', 'glm5'),
  ['minicpm5', { ...cut('\\p{N}{1,3}', cl100k('\\p{N}+')), ignoreMerges: true }],
  [
    'jais-2',
    cut(
      cl100k('\\p{N}{1,3}').replace(
        '\\s+(?!\\S)|\\s+',
        `${[512, 256, 128, 64, 32, 16, 8, 4, '1,2'].map((n) => `\\s{${n}}(?!\\S)|`).join('')}\\s`,
      ),
    ),
  ],
  // Qwen's own tokenizer.json normalises text to composed form; llama.cpp does not.
  ['qwen2', { ...qwen2, normalizer: { type: 'NFC' } }],
  ...named(qwen2, 'deepseek-r1-qwen', 'stablelm2', 'kormo', 'f2llmv2', 'megrez', 'hunyuan', 'grok-2', 'solar-open'),
  ['qwen35', { ...qwen35, normalizer: { type: 'NFC' } }],
  ['laguna', cut('[^\\n]+|[\\n]+', cl100k('\\p{N}'))],
  ['ufakzeka', cut(cl100k('\\p{N}').replace(`${CONTRACTIONS}|`, ''))],
  ['seed-coder', cut(cl100k('\\p{N}').replace('[^\\s\\p{L}\\p{N}]+[\\r\\n]*', '[^\\s\\p{L}\\p{N}]+'))],
  ...named(bailing, 'bailingmoe', 'bailingmoe2', 'llada-moe'),
  [
    'exaone-moe',
    cut(
      `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
    ),
  ],
  ...named(digits, 'smollm', 'starcoder', 'refact', 'command-r', 'codeshell', 'exaone', 'minerva-7b', 'mellum2'),
  ['falcon', cut('[\\p{P}\\$\\+<=>\\^~\\|`]+', GPT2_WORDS, '[0-9][0-9][0-9]')],
  ['tekken', { ...cut(cased('', '\\p{N}')), ignoreMerges: true, addBos: true }],
  ...named(o200k, 'gpt-4o', 'llama4', 'kanana2', 'talkie', 'minimax-m2'),
  [
    'deepseek-llm',
    cut(
      '[\\r\\n]',
      `\\s?[${CASED_LETTERS}]+`,
      '\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+',
      '\\s+$',
      HAN_HANGUL,
      '\\p{N}+',
    ),
  ],
  ['deepseek-coder', cut('[\\r\\n]', '\\s?\\p{L}+', '\\s?\\p{P}+', HAN_HANGUL, '\\p{N}')],
  ...named(deepseekV3, 'deepseek-v3', 'hunyuan-dense', 'joyai-llm', 'hy_v4'),
  ['spark2_5', cut('\\p{N}{1,3}', HAN_KANA, deepseek3('|[\\r\\n]'), '\\p{N}')],
  [
    'youtu',
    {
      ...cut(
        `[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|${HAN_KANA}`,
        cased(`${CONTRACTIONS}?`, '\\p{N}'),
      ),
      ignoreMerges: true,
    },
  ],
  [
    'chameleon',
    {
      ...cut(
        '<sentinel:[0-9]+>',
        '(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z',
        '([\\t\\n]|    |  )',
        '\\p{N}',
        '[\\p{P}!-/:-@\\[-`{-~]',
        GPT2_WORDS,
      ),
      addBos: true,
    },
  ],
  ...named(cut(bloom), 'poro-chat', 'bloom', 'gpt3-finnish'),
  ['viking', cut(bloom, '\\p{N}')],
]);
