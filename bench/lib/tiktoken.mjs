/**
 * Converts the ranks of js-tiktoken to the `vocab` and `merges` of a tokenizer.json: each token is merged from the two
 * parts that remain just before it is.
 */
export function modelOf({ bpe_ranks: ranks }) {
  const bytes = new Map(),
    alphabet = byteAlphabet();
  for (const line of ranks.split('\n').filter(Boolean)) {
    const [, first, ...tokens] = line.split(' ');
    for (const [i, token] of tokens.entries())
      bytes.set(Buffer.from(token, 'base64').toString('latin1'), Number(first) + i);
  }
  const name = (token) => Array.from(token, (byte) => alphabet[byte.charCodeAt(0)]).join('');
  const merges = [];
  for (const [token, rank] of [...bytes].sort((a, b) => a[1] - b[1])) {
    const pair = token.length > 1 ? lastTwo(token, rank, bytes) : undefined;
    if (pair) merges.push(pair.map(name));
  }
  return { vocab: Object.fromEntries([...bytes].map(([token, rank]) => [name(token), rank])), merges };
}

function lastTwo(token, rank, bytes) {
  let parts = [...token];
  while (parts.length > 2) {
    let [best, at] = [rank, -1];
    for (let i = 0; i + 1 < parts.length; i++) {
      const joined = bytes.get(parts[i] + parts[i + 1]) ?? Infinity;
      if (joined < best) [best, at] = [joined, i];
    }
    if (at < 0) return undefined;
    parts = [...parts.slice(0, at), parts[at] + parts[at + 1], ...parts.slice(at + 2)];
  }
  return parts;
}

function byteAlphabet() {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCharCode((byte > 32 && byte < 127) || (byte > 160 && byte !== 173) ? byte : next++),
  );
}

const rest = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const [upper, lower] = ['[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'];

/** Expressions of the tokenizer.json of GPT-2, of Llama 3 or Qwen 2 (by how they split digits), and of GPT-4o. */
export const splits = {
  gpt2: "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  cl100k: (digits) => `${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}|${rest}`,
  o200k: `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${contractions}?|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${contractions}?|\\p{N}{1,3}|${rest.replace('[\\r\\n]*', '[\\r\\n/]*')}`,
};
