import { createInterface } from 'node:readline';
import { KvError } from '@kv/core';
import { bytesText, counted } from '@kv/core/shared';
import { answerWriter } from '../answer-text.ts';
import { heldApart } from '../cache-text.ts';
import { oneSentence } from '../one-sentence.ts';
import type { TerminalInput, Terminal } from '../terminal.ts';
import type { Chat, Sequence } from '@kv/models';
import { notesText } from '../run/notes.ts';
import { runCommand } from './commands.ts';
import { progress } from './progress.ts';

/**
 * Reads turns line by line until the input ends, /quit or Ctrl-C; the first Ctrl-C during an answer ends only the
 * answer.
 */
export async function repl(chat: Chat, terminal: Terminal & { readonly input: TerminalInput }): Promise<void> {
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
  /** Notes that were shown. */
  const told = new Set<string>();
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
      if (/^\/(?!\/)/.test(line)) await runCommand(line.trim(), chat, terminal);
      else if (line.trim() !== '') {
        answering = new AbortController();
        await answer(line.replace(/^\/\//, '/'), answering.signal);
        answering = undefined;
      }
      if (!left && !ended) lines.prompt();
    }
    if (tty) stderr.write('\n');
  } finally {
    giveBack();
    lines.close();
  }

  /** Runs one turn; an error is printed as one sentence, and the conversation goes on unless its device is gone. */
  async function answer(line: string, abort: AbortSignal): Promise<void> {
    const { sequence } = chat,
      started = performance.now(),
      before = sequence.stats.counts.steps;
    let read = 0,
      readAt = started;
    const onRead = (done: number, of: number): void => {
      [read, readAt] = [done, performance.now()];
      progress(stderr, done, of);
    };
    try {
      const answered = chat.send(line, { signal: abort, onRead });
      const write = answerWriter(stdout);
      for await (const chunk of answered) write(chunk);
      const { finish, report } = await answered;
      stdout.write('\n');
      stderr.write(notesText(report.notes.filter((note) => !told.has(note))));
      for (const note of report.notes) told.add(note);
      const rate = (tokens: number, ms: number): string => (tokens / Math.max(0.001, ms / 1000)).toFixed(1),
        wrote = sequence.stats.counts.steps - before;
      const slots = Math.max(
        ...sequence
          .kept()
          .flat()
          .map((row) => row.length),
      );
      const most = sequence.active.budget?.slots,
        room = most ?? chat.model.config.maxPositions,
        end = finish === 'aborted' ? ', stopped' : finish === 'context' ? ', the context is full' : '';
      stderr.write(
        `${meter(slots / room)} ${slots} of ${counted(room, 'slot')}${most === undefined ? ' of the context' : ''}, ${bytesHeld(sequence)}; ${counted(sequence.progress.length, 'token')} so far; read ${read} at ${rate(read, readAt - started)} tokens/s, wrote ${wrote} at ${rate(wrote, performance.now() - readAt)}${end}\n`,
      );
    } catch (error) {
      if (!KvError.is(error) || error.at === 'gpu') throw error;
      stderr.write(`${oneSentence(error)}\n`);
    }
  }
}

/** Draws a share of the memory as a bar. */
function meter(share: number): string {
  const full = Math.min(WIDTH, Math.ceil(WIDTH * share));
  return `[${'#'.repeat(full)}${'.'.repeat(WIDTH - full)}]`;
}
const WIDTH = 12;

/** Describes the bytes of held keys and values, those of states of layers, and those recorded for the policy. */
const bytesHeld = ({ memory: { cache } }: Sequence): string =>
  [`${bytesText(cache.liveBytes)} of keys and values`, ...heldApart(cache)].join(', ');
