import type { Sequence } from '@kv/models';

/** Renders the conversation with dropped text marked, followed by the counts. */
export function droppedText(sequence: Pick<Sequence, 'progress' | 'kept'>, mark: (text: string) => string): string {
  const { text, offsets } = sequence.progress.text,
    shares = heldShares(sequence.kept(), offsets.length);
  let out = '',
    run = '',
    low = false,
    end = 0;
  const flush = (): void => {
    out += low && run !== '' ? mark(run) : run;
    run = '';
  };
  for (const [i, [from, to]] of offsets.entries()) {
    // Of tokens that share a character, the first shows it.
    const piece = text.slice(Math.max(from, end), to);
    end = Math.max(end, to);
    if (piece === '') continue;
    if (shares[i] < 0.5 !== low) {
      flush();
      low = !low;
    }
    run += piece;
  }
  flush();
  const percent = (count: number): string => `${Math.round((100 * count) / Math.max(1, shares.length))} %`;
  const half = shares.filter((share) => share >= 0.5).length,
    none = shares.filter((share) => share === 0).length;
  return `${out}\n${shares.length} tokens: ${percent(half)} are still held by half of the layers and KV heads or more, ${percent(none)} by none; a token is held by ${percent(shares.reduce((a, b) => a + b, 0))} of them on average\n`;
}

/** Says how much of a text, where it occurs last in the conversation, the layers still hold. */
export function whereText(sequence: Pick<Sequence, 'progress' | 'kept'>, text: string): string {
  const { text: all, offsets } = sequence.progress.text,
    start = all.lastIndexOf(text),
    name = JSON.stringify(text.slice(0, 80));
  if (text === '' || start < 0) return `${name} is not in the conversation\n`;
  const tokens = [...offsets.keys()].filter((i) => offsets[i][1] > start && offsets[i][0] < start + text.length),
    layers = sequence.kept().map((rows) => {
      const shares = heldShares([rows], offsets.length);
      return tokens.reduce((sum, i) => sum + shares[i], 0) / tokens.length;
    });
  const percent = (share: number): string => `${Math.round(100 * share)} %`,
    mean = layers.reduce((a, b) => a + b, 0) / layers.length,
    best = layers.indexOf(Math.max(...layers)),
    worst = layers.indexOf(Math.min(...layers));
  return `${name}: ${tokens.length} ${tokens.length === 1 ? 'token' : 'tokens'}, ${percent(mean)} still in the cache${layers[best] === layers[worst] ? ', in every layer alike' : `, from ${percent(layers[worst])} in layer ${worst} to ${percent(layers[best])} in layer ${best}`}; kv trace --why tells the scores\n`;
}

/** Returns, for each token, the share of layers and KV heads that still hold it. */
export function heldShares(kept: readonly (readonly (readonly number[])[])[], tokens: number): readonly number[] {
  const rows = kept.flat(),
    counts = new Array<number>(tokens).fill(0);
  for (const row of rows) for (const position of row) counts[position]++;
  return counts.map((count) => count / rows.length);
}
