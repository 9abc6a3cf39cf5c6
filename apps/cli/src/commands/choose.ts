import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { headDims } from '@kv/checkpoints';
import { KvError, count, maybe, number, oneOf, text, texts, whole } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { budgetOption } from '@kv/core/engine';
import { counted } from '@kv/core/shared';
import { formOf } from '@kv/engine';
import {
  candidatesOf,
  choiceColumns,
  choiceLegend,
  choiceReport,
  choiceSentences,
  choose,
  isEarly,
  lossPicture,
  pictureLegend,
  readPrompts,
  rowOf,
  SHARES,
  shellWord,
  shownRows,
  TARGETS,
  useLines,
} from '@kv/evaluation';
import type { Choice, ChoiceGoal, ChoiceProgress, UseLine } from '@kv/evaluation';
import { checkWritable, writeWhole } from '@kv/evaluation/files';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { fitColumns, reflow } from '../columns.ts';
import { chooseEngine } from '../engine.ts';
import { here, machineOf, namingOf, subjectOf, workersOption } from '../experiment.ts';
import { flagOf, withFlagNames, withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { plain } from '../plain.ts';
import { duration } from '../progress.ts';
import { readWhole, textOf } from '../run/questions.ts';
import { machineOptions, on } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Stream, Terminal } from '../terminal.ts';
import { VERSION } from '../version.ts';

/** Flags of `kv choose`. */
export const CHOOSE = {
  ...machineOptions('fast'),
  prompts: texts(
    'A file or folder: JSON lines with "prompt", "context" and "question", or "messages", with or without "answer"; or plain text.',
  ),
  budget: budgetOption(
    'What the choice may keep: slots, a share such as 25%, or bytes; then the least loss is sought.',
  ),
  memory: bytesOnly(budgetOption('The same in bytes of the whole cache, such as 64MiB.')),
  lose: maybe(
    text(
      '',
      'a share from 0% to below 100%, such as 1%',
      'What the choice may lose, such as 1%; then the least memory is sought.',
      (x) => (shareOf(x) === undefined ? undefined : String(x)),
    ),
    '1% without --budget and --memory',
  ),
  minutes: number(10, 'Minutes that it may take.', { above: 0, most: 10_080 }),
  question: oneOf(
    ['after', 'inside'],
    'after',
    "'after': questions come once slots were dropped; 'inside': they are part of what is read before.",
  ),
  for: oneOf(
    TARGETS,
    'kv',
    `The engine that will run the choice, ${TARGETS.map((target) => `'${target}'`).join(' or ')}: policies that it cannot run are no candidates.`,
  ),
  candidates: count(
    96,
    'policies',
    'Policies that are tried: first those of the catalogue, then others drawn from the algebra.',
    {
      most: 10_000,
    },
  ),
  seed: whole(0, 'n', 'Another seed splits the prompts and draws policies differently.'),
  workers: workersOption,
  state: maybe(text('', 'a file', 'Where results are kept: the same command goes on from there.')),
  html: maybe(text('', 'a file', 'Write a report that opens offline.')),
  json: on('Print one object: every candidate with what was measured, the choice, and the lines that use it.'),
};
type Flags = ResolvedOptions<typeof CHOOSE>;

/** Returns a budget's option that takes bytes alone. */
function bytesOnly(option: ReturnType<typeof budgetOption>): ReturnType<typeof budgetOption> {
  const { form } = option;
  if (form.sort !== 'text') return option;
  const read = (x: unknown): unknown => (/b$/i.test(String(x)) ? form.read?.(x) : undefined);
  return { ...option, form: { ...form, of: 'bytes', want: 'a number of bytes such as 64MiB', read } };
}

/** Returns a share written as percent, or undefined. */
function shareOf(x: unknown): number | undefined {
  const percent = Number(/^(\d+(?:\.\d+)?)%$/.exec(String(x))?.[1]);
  return percent < 100 ? percent / 100 : undefined;
}

/** `kv choose`: which policy for this model and these prompts. */
export const chooseCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(
      new Command('choose')
        .description('Say which policy drops what from the cache of your model on your prompts, and what that costs.')
        .argument('[files...]', 'more of --prompts'),
      CHOOSE,
    ).action((files: readonly string[], flags: Flags, command: Command) =>
      withFlagNames(command, () => run(files, flags, command, terminal)),
    ),
    ['kv choose --model model.gguf --prompts mine.jsonl', 'the least memory that loses at most 1 %'],
    ['kv choose --model model.gguf --prompts mine.jsonl --budget 25%', 'the policy that loses least in a quarter'],
    [
      'kv choose --model model.gguf --prompts notes/ --memory 64MiB --state choice.json --html choice.html',
      'resumable, with a report',
    ],
    [
      'kv choose --model model.gguf --prompts mine.jsonl --budget 25% --for transformers.js',
      'among what that engine can run',
    ],
  );

async function run(more: readonly string[], flags: Flags, command: Command, terminal: Terminal): Promise<void> {
  const { cwd, stdout, stderr, signal } = terminal,
    { seed, minutes, state: stateFile, html } = flags,
    goal = goalOf(flags),
    files = promptFiles([...(flags.prompts ?? []), ...more], cwd, stderr);
  for (const out of [stateFile, html]) if (out !== undefined) checkWritable(resolve(cwd, out), plain(out));
  const state = stateFile === undefined ? undefined : readState(resolve(cwd, stateFile), plain(stateFile)),
    machine = machineOf(command, await chooseEngine(command, cwd)),
    found = await subjectOf(flags.model, machine, terminal),
    { subject } = found,
    prompts = readPrompts(
      files,
      { ...subject, chatTemplate: found.chatTemplate },
      { ask: flags.question, onLeftOut: (name, why) => stderr.write(`choose: ${name} is left out: ${why}\n`) },
    );
  const drawn = candidatesOf(subject, {
      lengths: prompts.map(({ ids }) => ids.length),
      form: formOf(undefined, {
        otherwise: machine.engine === 'fast' ? 'q8' : 'f32',
        headDims: headDims(subject.config),
      }),
      budgets: 'budget' in goal ? [goal.budget] : SHARES,
      target: flags.for,
      device: machine.engine === 'webgpu',
      seed,
      most: flags.candidates,
    }),
    { candidates, left } = await withFlagOf(flags, drawn);
  if (candidates.length === 0)
    throw new KvError(
      memoryFlag(flags),
      `expected a budget that some policy fits, got one that none of ${left.length} does: ${left[0]?.why ?? ''}`,
    );
  const said = progress(stderr),
    { names, code } = namingOf(terminal, machine),
    choice = await choose(subject, prompts, {
      candidates,
      goal,
      minutes,
      seed,
      state,
      signal,
      ...here({ ...found, cwd }, machine),
      names,
      code,
      onProgress(now) {
        said(now);
        if (stateFile !== undefined) writeWhole(resolve(cwd, stateFile), JSON.stringify(now.state), plain(stateFile));
      },
    });
  const lines = useLines(choice, flags.model),
    goesOn = goesOnText(choice, stateFile !== undefined);
  stdout.write(
    flags.json
      ? `${JSON.stringify({ ...choice, lines })}\n`
      : `${choiceText(choice, lines, { width: lineWidth(stdout), goesOn })}\n`,
  );
  if (html !== undefined)
    writeWhole(
      resolve(cwd, html),
      choiceReport(choice, lines, {
        command: commandText(command, more),
        goesOn,
        versions: { kv: VERSION, Node: process.versions.node },
      }),
      plain(html),
    );
}

/** Says how a choice that was stopped early goes on; undefined for one that was not. */
function goesOnText(choice: Choice, stored: boolean): string | undefined {
  if (!isEarly(choice)) return undefined;
  return stored
    ? 'The same command goes on from here.'
    : 'What was measured is not kept: given with --state FILE, the same command keeps it and goes on from there.';
}

/** Returns the flag that gave the budget. */
const memoryFlag = ({ memory }: Flags): string => (memory === undefined ? '--budget' : '--memory');
/** Names in errors of a budget the flag that gave it. */
async function withFlagOf<T>(flags: Flags, asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (cause) {
    if (!KvError.is(cause) || cause.at !== 'budget') throw cause;
    throw new KvError(memoryFlag(flags), cause.message.slice('budget: '.length));
  }
}

type BudgetGoal = Extract<ChoiceGoal, { readonly budget: unknown }>;
/** Returns the goal of the flags. @throws KvError for more than one */
function goalOf({ budget, memory, lose }: Flags): ChoiceGoal {
  const given = Object.entries({ '--budget': budget, '--memory': memory, '--lose': lose }).filter(
    ([, value]) => value !== undefined,
  );
  if (given.length > 1)
    throw new KvError(
      given[1][0],
      `expected one of --budget, --memory and --lose, got ${given.map(([flag]) => flag).join(' and ')}`,
    );
  if (budget !== undefined || memory !== undefined) return { budget: (budget ?? memory) as BudgetGoal['budget'] };
  return { lose: shareOf(lose ?? '1%')! }; // its option checks it
}

/** The most files of folders. */
const MOST_FILES = 10_000;
/** Reads the files of prompts; of a folder its files of text by name, without those that begin with a dot. */
function promptFiles(
  names: readonly string[],
  cwd: string,
  stderr: Stream,
): readonly { readonly name: string; readonly text: string; readonly folder?: string | undefined }[] {
  if (names.length === 0) throw new KvError('--prompts', 'expected a file or folder with prompts, got none');
  const all = names.flatMap((name) => {
    if (!statSync(resolve(cwd, name), { throwIfNoEntry: false })?.isDirectory()) return [{ name }];
    const inside = readdirSync(resolve(cwd, name), { withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
      .map((entry) => join(name, entry.name))
      .sort();
    if (inside.length === 0) throw new KvError(plain(name), 'expected a folder with files, got none in it');
    return inside.map((file) => ({ name: file, folder: name }));
  });
  if (all.length > MOST_FILES)
    throw new KvError('--prompts', `expected at most ${MOST_FILES} files, got ${all.length}`);
  const read = all.flatMap(({ name, folder }: { name: string; folder?: string }) => {
    const found = textOf(readWhole(name, cwd));
    if (found !== undefined) return [{ name: plain(name), text: found, folder: folder && plain(folder) }];
    if (folder === undefined) throw new KvError(plain(name), 'expected a text in UTF-8, got other bytes');
    stderr.write(`choose: ${plain(name)} is left out: it is no text in UTF-8\n`);
    return [];
  });
  for (const { folder } of all as readonly { folder?: string }[])
    if (folder !== undefined && !read.some((file) => file.folder === plain(folder)))
      throw new KvError(plain(folder), 'expected a folder with files of text in UTF-8, got none in it');
  return read;
}

/** Reads a stored state; undefined if there is none yet. What it holds is checked by `choose`. */
function readState(path: string, name: string): unknown {
  if (!statSync(path, { throwIfNoEntry: false })) return undefined;
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    throw new KvError(name, `expected what 'kv choose --state' wrote, got no JSON: name another file, or remove it`);
  }
}

/** Seconds between two lines of progress of a round. */
const EVERY_S = 10;
/** Returns what reports progress: a line when a round begins and every `EVERY_S` seconds, with the answer so far. */
function progress(stderr: Stream): (now: ChoiceProgress) => void {
  let [last, before] = [-Infinity, ''];
  return (progress) => {
    const now = performance.now(),
      round = `${progress.phase} ${progress.round}`;
    if (progress.texts === 0 || (round === before && now - last < 1000 * EVERY_S)) return; // a next round says more
    [last, before] = [now, round];
    stderr.write(`choose: ${progressText(progress)}\n`);
    stderr.write(`${reflow(`  ${plain(choiceSentences(progress.choice)[0])}`, lineWidth(stderr))}\n`);
  };
}

/** Says what is being done, and for how long. */
export function progressText({
  phase,
  round,
  rounds,
  texts,
  candidates,
  secondsLeft,
}: Pick<ChoiceProgress, 'phase' | 'round' | 'rounds' | 'texts' | 'candidates' | 'secondsLeft'>): string {
  const doing = phase === 'confirming' || round === 0 ? phase : `${phase}, round ${round} of ${rounds}`,
    rest = texts === 0 ? '' : `, ${counted(candidates, 'candidate')} to ask on ${counted(texts, 'text')}`;
  return `${doing}${rest}${secondsLeft < 1 ? '' : `, about ${duration(secondsLeft)} left`}`;
}

/** Returns the answer for a terminal of this width: sentences, picture, table, and the lines that use it. */
export function choiceText(
  choice: Choice,
  lines: readonly UseLine[],
  { width, goesOn }: { readonly width: number; readonly goesOn?: string | undefined },
): string {
  const [first = '', ...others] = [...choiceSentences(choice), ...(goesOn === undefined ? [] : [goesOn])],
    picture = lossPicture(choice, { chosen: rowOf(choice), width }),
    columns = choiceColumns(choice),
    rows = shownRows(choice);
  const parts = [
    pc.bold(reflow(plain(first), width)),
    ...others.map((sentence) => reflow(plain(sentence), width)),
    ...(picture !== ''
      ? [
          '',
          picture,
          pc.dim(reflow(pictureLegend(choice), width)),
          '',
          fitColumns(
            [columns.map(([title]) => pc.dim(title)), ...rows.map((of) => columns.map(([, cell]) => plain(cell(of))))],
            new Set([...columns.keys()].slice(1)),
            width,
          ),
          pc.dim(reflow(choiceLegend(choice), width)),
        ]
      : []),
    ...(lines.length > 0 ? ['', ...lines.map((of) => useText(of, width))] : []),
  ];
  return parts.join('\n');
}

/** Shows a line that can be copied: it is not wrapped. */
const useText = ({ where, line, why, note }: UseLine, width: number): string =>
  line === undefined
    ? reflow(`${where}: cannot run it: ${plain(why ?? '')}`, width)
    : `${pc.dim(`${where}:`)}\n  ${plain(line)}${note === undefined ? '' : `\n${pc.dim(reflow(`  (${note})`, width))}`}`;

/** Flags that are told though they were not given. */
const TOLD: ReadonlySet<string> = new Set(['model', 'minutes', 'seed', 'candidates', 'question']);
/** Flags that say where the answer goes. */
const OUTPUT: ReadonlySet<string> = new Set(['html', 'json']);
/** Returns the command as it could be given again, with the defaults that a later version may change. */
function commandText(command: Command, more: readonly string[]): string {
  const flags = command.options.flatMap((option) => {
    const name = option.attributeName(),
      value: unknown = command.getOptionValue(name),
      isTold = TOLD.has(name) || command.getOptionValueSource(name) === 'cli';
    if (OUTPUT.has(name) || !isTold) return [];
    return value === true ? [flagOf(name)] : [value].flat().map((one) => `${flagOf(name)} ${shellWord(String(one))}`);
  });
  return plain(['kv choose', ...flags, ...more.map(shellWord)].join(' '));
}
