import { entries, KvError, lookUp, maybe, text } from '@kv/core';
import type { Description, RegistryEntry, Option, ResolvedOptions } from '@kv/core';
import { recommendedPolicies } from '@kv/policies';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { wrap, wrapColumns } from '../columns.ts';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { installedPieces } from '../policy/installed.ts';
import type { InstalledPieces } from '../policy/installed.ts';
import { on } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';

/** Flags of `kv pieces`. */
export const PIECES = {
  kind: maybe(text('', 'a kind', 'Only those of a kind, such as method, scorer or selector.')),
  json: on('Print an array of {name, kind, about, source, package, needs, takes, from, to, options, details}.'),
};

/** `kv pieces`: lists all installed pieces and methods. */
export const piecesCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(new Command('pieces'), PIECES)
      .description('List the methods and pieces that are installed, or say all about one of them.')
      .argument(
        '[name]',
        'one name: its options with defaults and meaning, what it reads, takes and leaves; or a part of names, to list those',
      )
      .action(async (name: string | undefined, { json, kind }: ResolvedOptions<typeof PIECES>) => {
        const { stdout, stderr, cwd } = terminal;
        const all = await installedPieces(cwd);
        for (const sentence of all.failed) stderr.write(`${sentence}\n`);
        const among = ofKind(entries(all.known), kind),
          exact = name !== undefined && among.some(({ factory }) => factory.description.name === name),
          part = name === undefined ? among : among.filter(({ factory }) => has(factory.description.name, name)),
          one = name !== undefined && (exact || part.length === 0),
          listed = one ? named(all, name, among) : part;
        const width = lineWidth(stdout);
        if (json)
          stdout.write(
            `${JSON.stringify(
              listed.map((entry) => record(entry, all)),
              null,
              1,
            )}\n`,
          );
        else if (one) stdout.write(`${listed.map((entry) => details(entry, all, width)).join('\n\n')}\n`);
        else
          stdout.write(
            `${name === undefined && kind === undefined ? firstOf(width) : ''}${list(listed, all, width)}\n`,
          );
      }),
    ['kv pieces', 'everything that is installed'],
    ['kv pieces snapkv', 'its options with defaults and meaning'],
    ['kv pieces snap', 'those with snap in their names'],
    ['kv pieces --kind scorer', 'all scorers'],
    ['kv pieces --json', 'all of it for a program'],
  );

const has = (name: string, part: string): boolean => name.toLowerCase().includes(part.toLowerCase());

/** Returns the entries of a kind. @throws KvError for an unknown kind */
function ofKind(all: readonly RegistryEntry[], kind: string | undefined): readonly RegistryEntry[] {
  const found = all.filter(({ factory }) => kind === undefined || factory.description.kind === kind);
  if (found.length > 0) return found;
  const kinds = [...new Set(all.map(({ factory }) => factory.description.kind))].sort();
  throw new KvError('--kind', `must be ${kinds.join(', ')}, got ${JSON.stringify(kind)}`);
}

/** Returns the entry of a name, if it is among those asked for. @throws KvError for an unknown name, or one of another kind */
function named({ known }: InstalledPieces, name: string, among: readonly RegistryEntry[]): readonly RegistryEntry[] {
  const one = lookUp(known, name),
    found = among.filter(({ factory }) => factory === one);
  if (found.length > 0) return found;
  throw new KvError('--kind', `expected that of '${name}', ${one.description.kind}, got another`);
}

const record = ({ factory: { description }, package: from }: RegistryEntry, { versions }: InstalledPieces): object => {
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
/** Returns a default as policy texts write it. */
const standard = ({ default: value, as }: Option<unknown>): unknown =>
  as ?? (typeof value === 'object' && value !== null && 'label' in value ? value.label : value);

/** Returns the policies to try first. */
const firstOf = (width: number): string => {
  const indented = (text: string, by: number): readonly string[] =>
    wrap(text, width - by).map((line) => ' '.repeat(by) + line);
  return [
    pc.bold('Try these first'),
    ...recommendedPolicies.flatMap(({ policy, when }) => [...indented(policy, 0), ...indented(when, 4)]),
    '',
    '',
  ].join('\n');
};

const ours = (from: string): boolean => from.startsWith('@kv/');
function list(all: readonly RegistryEntry[], { versions }: InstalledPieces, width: number): string {
  const paragraph = (text: string): string => wrap(text, width).join('\n');
  const section = (title: string, entries: readonly RegistryEntry[]): string => {
    const rows = entries.map(({ factory: { description }, package: from }) => [
      description.name,
      pc.dim(description.kind),
      `${description.says}${ours(from) ? '' : ` (${from}@${versions.get(from) ?? '0.0.0'})`}`,
    ]);
    return `${pc.bold(paragraph(title))}\n${wrapColumns(rows, width)}`;
  };
  const isMethod = ({ factory }: RegistryEntry): boolean => factory.description.kind === 'method',
    methods = all.filter(isMethod),
    pieces = all.filter((entry) => !isMethod(entry));
  return [
    ...(methods.length > 0 ? [section('Methods, for --policy by their name alone', methods), ''] : []),
    ...(pieces.length > 0
      ? [
          section(
            "Pieces, joined by | or ∘, such as --policy 'snapkv(window=16,kernel=17,pooling=max) | caote | topK'",
            pieces,
          ),
          '',
        ]
      : []),
    paragraph("A scorer alone is followed by topK. 'kv pieces NAME' says all about one of them."),
  ].join('\n');
}

function details(
  { factory: { description }, package: from }: RegistryEntry,
  { versions }: InstalledPieces,
  width: number,
): string {
  const { name, kind, says, source, signals, options } = description;
  const rows = [
    ['source', source],
    ['package', `${from}@${versions.get(from) ?? '0.0.0'}`],
    ['reads', signals.join(', ') || 'no signals'],
    ...places(description),
  ];
  const optionRows = Object.entries(options).map(([key, option]) => [
    `${key}=${String(standard(option) ?? '')}`,
    `${option.says} (${option.form.want}${option.otherwise === undefined ? '' : `; by default ${option.otherwise}`})`,
  ]);
  return [
    wrap(`${name}, ${kind}: ${says}`, width).join('\n').replace(name, pc.bold(name)),
    wrapColumns(rows, width),
    ...(optionRows.length > 0 ? [wrapColumns(optionRows, width)] : []),
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
