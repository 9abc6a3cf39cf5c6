import { createInterface } from 'node:readline';
import { KvError } from '@kv/core';
import { bytesText } from '@kv/evaluation';
import pc from 'picocolors';
import { oneSentence } from '../one-sentence.ts';
import { plain } from '../plain.ts';
import { shownOn, type TerminalInput, type Terminal } from '../terminal.ts';
import type { Conversation } from './conversation.ts';
import { droppedText } from './evicted-text.ts';

const HELP = `/dropped     the conversation, with what the policy has dropped marked (dim, or in [brackets] where there is no terminal)
/bytes       what is held, by part: keys, values and positions; queries, sums and states that a policy reads
/save FILE   write the cache; kv chat --load FILE goes on
/quit        leave; so does Ctrl-D, Ctrl-C at an empty prompt, or Ctrl-C twice within a second
`;

/**
 * Reads turns line by line until the input ends, /quit or Ctrl-C; the first Ctrl-C during an answer ends only the
 * answer.
 */
export async function repl(
  conversation: Conversation,
  terminal: Terminal & { readonly input: TerminalInput },
): Promise<void> {
  const { stdout, stderr, input, signal } = terminal,
    tty = input.stream.isTTY === true;
  const lines = createInterface({
    input: input.stream,
    ...(tty && { output: process.stderr, terminal: true, prompt: '> ' }),
  });
  let answering: AbortController | undefined,
    last = -Infinity,
    left = false,
    ended = false;
  /** Stops the loop; lines that were read ahead are discarded. */
  const leave = (): void => {
    left = true;
    lines.close();
  };
  const giveBack = input.takeInterrupts(() => {
    const again = performance.now() - last < 1000;
    last = performance.now();
    if (again) answering?.abort();
    if (again) return false;
    if (answering) answering.abort();
    else if (tty && lines.line !== '') lines.write(null, { ctrl: true, name: 'u' });
    else leave();
    return true;
  });
  lines.on('close', () => {
    ended = true; // lines already received are still processed
  });
  lines.on('SIGINT', () => input.interrupt());
  signal.addEventListener('abort', leave, { once: true });
  try {
    lines.prompt();
    for await (const line of lines) {
      if (left || line.trim() === '/quit') break;
      if (line.startsWith('/')) await command(line.trim(), conversation, terminal);
      else if (line.trim() !== '') {
        answering = new AbortController();
        await answer(line, conversation, answering.signal);
        answering = undefined;
      }
      if (!left && !ended) lines.prompt();
    }
    if (tty) stderr.write('\n');
  } finally {
    giveBack();
    lines.close();
  }

  /** Runs one turn; an error is printed as one sentence, and the conversation goes on. */
  async function answer(line: string, { say, sequence }: Conversation, abort: AbortSignal): Promise<void> {
    const started = performance.now(),
      before = sequence.stats.counts.steps;
    let read = 0,
      readAt = started;
    const onRead = (fed: number, of: number): void => {
      [read, readAt] = [fed, performance.now()];
      if (stderr.isTTY) stderr.write(fed < of ? `\rreading: ${fed} of ${of} tokens` : '\r\x1b[K');
    };
    try {
      const finish = await say(line, (text) => stdout.write(shownOn(stdout, text)), abort, onRead);
      stdout.write('\n');
      const rate = (tokens: number, ms: number): string => (tokens / Math.max(0.001, ms / 1000)).toFixed(1),
        wrote = sequence.stats.counts.steps - before;
      const slots = Math.max(
        ...sequence
          .kept()
          .flat()
          .map((row) => row.length),
      );
      const of = sequence.active.budget?.slots === undefined ? '' : ` of ${sequence.active.budget?.slots}`,
        end = finish === 'aborted' ? ', stopped' : finish === 'context' ? ', the context is full' : '';
      stderr.write(
        `[${sequence.progress.length} tokens, ${slots} slots${of}, ${heldText(sequence)}, read ${read} at ${rate(read, readAt - started)} tokens/s, wrote ${wrote} at ${rate(wrote, performance.now() - readAt)}${end}]\n`,
      );
    } catch (error) {
      if (!KvError.is(error) || !error.message.startsWith('chat:')) throw error;
      stderr.write(`${oneSentence(error)}\n`);
    }
  }
}

/** Describes the bytes of held keys and values, and separately those of the policy's state. */
function heldText({ memory: { ledger } }: Conversation['sequence']): string {
  const { live } = ledger.entry('cache'),
    other = ledger.live - live;
  return `${bytesText(live)} of keys and values${other === 0 ? '' : ` and ${bytesText(other)} of other state`}`;
}

async function command(
  line: string,
  { sequence, save }: Conversation,
  { stdout, stderr, cwd }: Terminal,
): Promise<void> {
  const [name = '', ...rest] = line.split(/\s+/),
    file = rest.join(' ');
  if (name === '/help') stderr.write(HELP);
  else if (name === '/bytes') {
    const { ledger } = sequence.memory,
      parts = ledger.names().map((part) => `${part} ${bytesText(ledger.entry(part).live)}`);
    stderr.write(`${[...parts, `most so far ${bytesText(ledger.peak)}`].join(', ')}\n`);
  } else if (name === '/dropped')
    stdout.write(droppedText(sequence, stdout.isTTY ? pc.createColors(true).dim : (text) => `[${text}]`));
  else if (name === '/save' && file !== '') {
    try {
      await save(file, cwd);
      stderr.write(`saved to ${plain(file)}\n`);
    } catch (error) {
      if (!KvError.is(error)) throw error;
      stderr.write(`${oneSentence(error)}\n`);
    }
  } else stderr.write(`expected /help, /dropped, /bytes, /save FILE or /quit, got ${JSON.stringify(line)}\n`);
}
