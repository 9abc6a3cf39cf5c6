import type { Chunk } from '@kv/models';
import { colors } from './colors.ts';
import { shownOn, type Stream } from './terminal.ts';

/** Returns what writes an answer as it comes; reasoning is shown on a terminal alone, dimmed and apart from the text. */
export function answerWriter(stdout: Stream): (chunk: Pick<Chunk, 'text' | 'reasoning'>) => void {
  let thinking = false;
  return ({ text, reasoning = '' }) => {
    if (stdout.isTTY && reasoning !== '') {
      stdout.write(colors.dim(shownOn(stdout, reasoning)));
      thinking = true;
    }
    if (text === '') return;
    stdout.write(`${thinking ? '\n\n' : ''}${shownOn(stdout, text)}`);
    thinking = false;
  };
}
