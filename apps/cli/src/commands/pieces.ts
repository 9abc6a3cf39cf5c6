import { entries, lookUp } from '@kv/core';
import type { Description, Entry, Option } from '@kv/core';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { wrap, wrapped } from '../columns.ts';
import { withExamples } from '../help.ts';
import { installed } from '../policy/installed.ts';
import type { Installed } from '../policy/installed.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';

/** `kv pieces`: everything that is installed. */
export const piecesCommand = (terminal: Terminal): Command =>
  withExamples(
    new Command('pieces')
      .description('List the methods and pieces that are installed, or say all about one of them.')
      .argument('[name]', 'one name: its options with defaults and meaning, what it reads, takes and leaves')
      .option(
        '--json',
        'print an array of {name, kind, about, source, package, needs, takes, from, to, options, details}',
      )
      .action(async (name: string | undefined, { json }: { readonly json?: true }) => {
        const { stdout, stderr, cwd } = terminal;
        const all = await installed(cwd);
        for (const sentence of all.failed) stderr.write(`${sentence}\n`);
        const listed = name === undefined ? entries(all.known) : named(all, name);
        const width = lineWidth(stdout);
        if (json)
          stdout.write(
            `${JSON.stringify(
              listed.map((entry) => record(entry, all)),
              null,
              1,
            )}\n`,
          );
        else if (name === undefined) stdout.write(`${list(listed, all, width)}\n`);
        else stdout.write(`${listed.map((entry) => details(entry, all, width)).join('\n\n')}\n`);
      }),
    ['kv pieces', 'everything that is installed'],
    ['kv pieces snapkv', 'its options with defaults and meaning'],
    ['kv pieces --json', 'all of it for a program'],
  );

/** Everything of a name: a method may stand beside a piece. */
function named({ known }: Installed, name: string): readonly Entry[] {
  const { description } = lookUp(known, name, true);
  return entries(known).filter(({ factory }) => factory === lookUp(known, name) || factory.description === description);
}

const record = ({ factory: { description }, package: from }: Entry, { versions }: Installed): object => {
  const { name, kind, says: about, source, signals: needs, takes, from: after, to: leaves, options } = description;
  const all = Object.entries(options);
  return {
    name,
    kind,
    about,
    source,
    package: `${from}@${versions.get(from) ?? '0.0.0'}`,
    needs,
    takes,
    from: after,
    to: leaves,
    options: Object.fromEntries(all.map(([key, option]) => [key, standard(option)])),
    details: Object.fromEntries(
      all.map(
        ([
          key,
          {
            form: { want },
            says,
          },
        ]) => [key, { want, says }],
      ),
    ),
  };
};
/** A default as text writes it. */
const standard = ({ default: value, as }: Option<unknown>): unknown =>
  as ?? (typeof value === 'object' && value !== null && 'label' in value ? value.label : value);

const ours = (from: string): boolean => from.startsWith('@kv/');
function list(all: readonly Entry[], { versions }: Installed, width: number): string {
  const paragraph = (text: string): string => wrap(text, width).join('\n');
  const section = (title: string, entries: readonly Entry[]): string => {
    const rows = entries.map(({ factory: { description }, package: from }) => [
      description.name,
      pc.dim(description.kind),
      `${description.says}${ours(from) ? '' : ` (${from}@${versions.get(from) ?? '0.0.0'})`}`,
    ]);
    return `${pc.bold(paragraph(title))}\n${wrapped(rows, width)}`;
  };
  const isMethod = ({ factory }: Entry): boolean => factory.description.kind === 'method';
  return [
    section('Methods, for --policy by their name alone', all.filter(isMethod)),
    '',
    section(
      "Pieces, joined by | or ∘, such as --policy 'snapkv(window=16) | caote | topK'",
      all.filter((entry) => !isMethod(entry)),
    ),
    '',
    paragraph("A scorer alone is followed by topK. 'kv pieces NAME' says all about one of them."),
  ].join('\n');
}

function details({ factory: { description }, package: from }: Entry, { versions }: Installed, width: number): string {
  const { name, kind, says, source, signals, options } = description;
  const rows = [
    ['source', source],
    ['package', `${from}@${versions.get(from) ?? '0.0.0'}`],
    ['reads', signals.join(', ') || 'no signals'],
    ...places(description),
  ];
  const optionRows = Object.entries(options).map(([key, option]) => [
    `${key}=${String(standard(option) ?? '')}`,
    `${option.says} (${option.form.want})`,
  ]);
  return [
    wrap(`${name}, ${kind}: ${says}`, width).join('\n').replace(name, pc.bold(name)),
    wrapped(rows, width),
    ...(optionRows.length > 0 ? [wrapped(optionRows, width)] : []),
  ].join('\n');
}
const TAKES = { scorer: 'a scorer', scorers: 'scorers', terms: 'WEIGHT*SCORER, ...', policy: 'a policy' } as const;
const places = ({ takes, from, to }: Description): readonly (readonly string[])[] => [
  ...(takes === 'nothing' ? [] : [['takes', TAKES[takes]]]),
  ...(from && to
    ? [
        ['stands after', from.join(', ')],
        ['leaves', to === 'same' ? 'what it finds' : to],
      ]
    : []),
];
