import { KvError } from '@kv/core';
import { compile } from '@kv/core/engine';
import { bytesText, counted } from '@kv/core/shared';
import type { Budget, Chat } from '@kv/models';
import pc from 'picocolors';
import { oneSentence } from '../one-sentence.ts';
import { plain } from '../plain.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { saveCacheFile } from '../save-cache.ts';
import type { Terminal } from '../terminal.ts';
import { droppedText, unreadText, whereText } from './evicted-text.ts';
import { progress } from './progress.ts';

/** A line that starts with `/`. */
interface ChatCommand {
  readonly argument?: string;
  /** Whether it does something without its argument. @defaultValue false */
  readonly optional?: boolean;
  readonly says: string;
  run(chat: Chat, argument: string, terminal: Terminal): unknown;
}

const COMMANDS: Readonly<Record<string, ChatCommand>> = {
  '/policy': {
    argument: '[TEXT] [BUDGET]',
    optional: true,
    says: 'the policy; or go on under another one or budget, such as /policy streaming 25% or 8MiB: the conversation is read again',
    async run(chat, argument, { cwd, stderr, signal }) {
      const [, text = '', budget] =
          /^(.*?)\s*(?:(?<!\S)(\d+(?:\.\d+)?(?:%(?: of \w+)?|[KMG]i?B|B)?))?$/.exec(argument) ?? [],
        onRead = (read: number, of: number): void => progress(stderr, read, of);
      let now = await chat.retention();
      if (argument !== '') {
        const policy = text === '' ? now.policy : await resolvePolicy(text, { cwd }),
          evicts = policy !== undefined && compile(policy).evicts,
          kept = evicts ? now.slots : undefined;
        if (budget !== undefined && !evicts)
          throw new KvError(
            '/policy',
            `expected no budget with '${policy?.label || 'full'}', which evicts nothing, got ${budget}`,
          );
        now = await chat.retain(policy ?? 'full', budget === undefined ? kept : budgetOf(budget), { signal, onRead });
      }
      const { policy, slots, bytes = 0 } = now;
      stderr.write(
        `${plain(policy?.label || 'full')}${slots === undefined ? '' : `, ${counted(slots, 'slot')} (at most ${bytesText(bytes)})`}\n`,
      );
    },
  },
  '/why': {
    argument: 'TEXT',
    says: 'how much of this text is kept, by layer',
    run: (chat, text, { stdout }) => stdout.write(whereText(chat, text)),
  },
  '/dropped': {
    says: 'the conversation; what the policy has dropped is dim, or in [brackets] where there is no terminal',
    run: (chat, _, { stdout }) =>
      stdout.write(
        droppedText(chat.sequence, stdout.isTTY ? pc.createColors(true).dim : (text) => `[${text}]`, unreadText(chat)),
      ),
  },
  '/bytes': {
    says: 'what is held, by part: keys, values and positions; states of layers without slots; what a policy reads',
    run(
      {
        sequence: {
          memory: { ledger },
        },
      },
      _,
      { stderr },
    ) {
      const parts = ledger
        .names()
        .map((part) => [part, ledger.entry(part).live] as const)
        .filter(([, live]) => live > 0)
        .map(([part, live]) => `${PARTS[part] ?? part} ${bytesText(live)}`);
      stderr.write(`${[...parts, `most so far ${bytesText(ledger.peak)}`].join(', ')}\n`);
    },
  },
  '/clear': {
    says: 'forget the conversation and start a new one',
    run(chat, _, { stderr }) {
      chat.clear();
      stderr.write('forgotten\n');
    },
  },
  '/save': {
    argument: 'FILE',
    says: 'write the cache; kv chat --load FILE goes on',
    async run(chat, file, { cwd, stderr }) {
      if (chat.sequence.progress.length === 0)
        throw new KvError('/save', 'expected a conversation that has begun, got an empty one: say something first');
      await saveChat(chat, file, cwd);
      stderr.write(`saved to ${plain(file)}\n`);
    },
  },
};

/** Parts of the ledger that elsewhere have another name: as in 'kv explain', states are those of layers. */
const PARTS: Readonly<Record<string, string | undefined>> = { 'layer states': 'states', states: 'numbers of pieces' };

/** What can be typed, each with its argument. */
const USAGE = Object.entries(COMMANDS).map(([name, { argument, says }]) => ({
  usage: argument === undefined ? name : `${name} ${argument}`,
  says,
}));
const QUIT = 'leave; so does Ctrl-D, Ctrl-C at an empty prompt, or Ctrl-C twice within a second';
const HELP = [...USAGE, { usage: '/quit', says: QUIT }, { usage: '//TEXT', says: 'send /TEXT, which is no command' }]
  .map(({ usage, says }) => `${usage.padEnd(24)}${says}\n`)
  .join('');

/** Runs a line that starts with `/`; an error is printed as one sentence, and the conversation goes on. */
export async function runCommand(line: string, chat: Chat, terminal: Terminal): Promise<void> {
  const [name = ''] = line.split(/\s/, 1),
    argument = line.slice(name.length).trim(),
    command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (name === '/help') terminal.stderr.write(HELP);
  else if (command === undefined)
    terminal.stderr.write(
      `expected ${USAGE.map(({ usage }) => usage).join(', ')}, /help or /quit, or // before a text that begins with /, got ${JSON.stringify(line)}\n`,
    );
  else if (command.optional !== true && (command.argument === undefined) !== (argument === ''))
    terminal.stderr.write(
      `expected ${name}${command.argument === undefined ? ' alone' : ` ${command.argument}`}, got ${JSON.stringify(line)}\n`,
    );
  else
    try {
      await command.run(chat, argument, terminal);
    } catch (error) {
      if (!KvError.is(error)) throw error;
      terminal.stderr.write(`${oneSentence(error)}\n`);
    }
}

/** Writes the cache of a conversation to a file. */
export async function saveChat(chat: Chat, file: string, cwd: string): Promise<void> {
  await chat.flush();
  await saveCacheFile(chat.sequence, file, cwd);
}

/** The conversation checks it. */
const budgetOf = (text: string): Budget => (/^\d+$/.test(text) ? Number(text) : (text as Budget));
