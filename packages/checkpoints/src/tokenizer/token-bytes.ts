/** Stands for a space in SentencePiece vocabularies. */
export const SPACE = '\u2581';

/**
 * Returns a function from a token's name in the vocabulary to its UTF-8 bytes: by GPT-2's byte-level alphabet, or by
 * SentencePiece's spaces and, if `inParts`, `<0xNN>` bytes.
 */
export function tokenBytes(byteLevel: boolean, inParts: boolean): (token: string) => Uint8Array {
  const encoder = new TextEncoder();
  if (!byteLevel)
    return (token) => {
      const byte = inParts ? /^<0x([0-9A-F]{2})>$/i.exec(token)?.[1] : undefined;
      return byte === undefined
        ? encoder.encode(token.replaceAll(SPACE, ' '))
        : Uint8Array.of(Number.parseInt(byte, 16));
    };
  const alphabet = byteAlphabet(),
    byUnit = new Int16Array(512).fill(-1);
  for (const [char, byte] of alphabet) byUnit[char.charCodeAt(0)] = byte;
  return (token) => {
    const plain = new Uint8Array(token.length);
    let at = 0;
    for (; at < token.length; at++) {
      const byte = byUnit[token.charCodeAt(at)] ?? -1;
      if (byte < 0) break;
      plain[at] = byte;
    }
    if (at === token.length) return plain;
    const bytes: number[] = [];
    for (const char of token) {
      const byte = alphabet.get(char);
      if (byte === undefined) bytes.push(...encoder.encode(char));
      else bytes.push(byte);
    }
    return Uint8Array.from(bytes);
  };
}

const encoder = new TextEncoder();
const names = [...byteAlphabet()].reduce((all, [char, byte]) => {
  all[byte] = char.charCodeAt(0);
  return all;
}, new Uint16Array(256));
const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;
const units = new TextDecoder(littleEndian ? 'utf-16le' : 'utf-16be', { ignoreBOM: true });

/** Writes a text's UTF-8 bytes in GPT-2's byte-level alphabet. */
export function byteNames(text: string): string {
  const bytes = encoder.encode(text);
  const named = new Uint16Array(bytes.length);
  for (let i = 0; i < bytes.length; i++) named[i] = names[bytes[i] as number] as number;
  return units.decode(named);
}

/** Returns GPT-2's byte alphabet: printable bytes keep their character, the others follow from U+0100. */
function byteAlphabet(): ReadonlyMap<string, number> {
  const prints = (byte: number): boolean => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  const alphabet = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) alphabet.set(String.fromCharCode(prints(byte) ? byte : next++), byte);
  return alphabet;
}
