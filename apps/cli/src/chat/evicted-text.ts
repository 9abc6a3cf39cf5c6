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

/** Says how much of a text the layers still hold, in each of the last places where it stands in the conversation. */
export function whereText(sequence: Pick<Sequence, 'progress' | 'kept'>, text: string): string {
  const { text: all } = sequence.progress.text,
    name = JSON.stringify(text.slice(0, 80)),
    starts: number[] = [];
  for (let at = all.indexOf(text); text !== '' && at >= 0; at = all.indexOf(text, at + text.length)) starts.push(at);
  if (starts.length === 0) return `${name} is not in the conversation\n`;
  if (starts.length === 1) return `${name}: ${heldAt(sequence, text, starts[0])}\n`;
  const shown = starts.slice(-PLACES),
    first = starts.length - shown.length;
  return [
    `${name} stands in ${starts.length} places${first > 0 ? `, the last ${PLACES} of which are` : ''}:\n`,
    ...shown.map((start, i) => `  place ${first + i + 1}: ${heldAt(sequence, text, start)}\n`),
  ].join('');
}
/** Most places of a text that are told. */
const PLACES = 5;

/** Says how much of a text that stands at `start` the layers still hold. */
function heldAt(sequence: Pick<Sequence, 'progress' | 'kept'>, text: string, start: number): string {
  const { offsets } = sequence.progress.text;
  const tokens = [...offsets.keys()].filter((i) => offsets[i][1] > start && offsets[i][0] < start + text.length),
    layers = sequence.kept().map((rows) => {
      const shares = heldShares([rows], offsets.length);
      return tokens.reduce((sum, i) => sum + shares[i], 0) / tokens.length;
    });
  const percent = (share: number): string => `${Math.round(100 * share)} %`,
    mean = layers.reduce((a, b) => a + b, 0) / layers.length,
    best = layers.indexOf(Math.max(...layers)),
    worst = layers.indexOf(Math.min(...layers));
  return `${tokens.length} ${tokens.length === 1 ? 'token' : 'tokens'}, ${percent(mean)} still in the cache${layers[best] === layers[worst] ? ', in every layer alike' : `, from ${percent(layers[worst])} in layer ${worst} to ${percent(layers[best])} in layer ${best}`}`;
}

/** Returns, for each token, the share of layers and KV heads that still hold it. */
export function heldShares(kept: readonly (readonly (readonly number[])[])[], tokens: number): readonly number[] {
  const rows = kept.flat(),
    counts = new Array<number>(tokens).fill(0);
  for (const row of rows) for (const position of row) counts[position]++;
  return counts.map((count) => count / rows.length);
}
