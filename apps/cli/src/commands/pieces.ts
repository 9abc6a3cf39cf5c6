import { compile, signalKey } from '@kv/core';
import { pieces, policies, printPiece } from '@kv/policies';
import type { OptionValues } from '@kv/policies';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { columns } from '../columns.ts';
import { installedPieces } from '../policy/installed-pieces.ts';
import type { Terminal } from '../terminal.ts';

/** One line of the list. */
interface Listed {
  readonly name: string;
  readonly kind: string;
  readonly needs: readonly string[];
  readonly options: OptionValues;
  readonly source: string;
  readonly about: string;
}

/** `kv pieces`: everything that is installed. */
export const piecesCommand = (terminal: Terminal): Command =>
  new Command('pieces')
    .description('List the policies and pieces that are installed, with kind, needs, options and source.')
    .option('--json', 'print an array of {name, kind, needs, options, source, about}')
    .action(async ({ json }: { readonly json?: true }) => {
      const all = [...listedPolicies(), ...(await listedPieces(terminal.cwd))];
      terminal.stdout.write(json ? `${JSON.stringify(all, null, 1)}\n` : `${table(all)}\n`);
    });

const listedPolicies = (): readonly Listed[] =>
  Object.entries(policies).map(([name, { make, options, source, about }]) => ({
    name,
    kind: 'policy',
    needs: compile(make()).needs.map(signalKey),
    options,
    source,
    about,
  }));

/** Labels leave some defaults out; the project's own list knows them, and the papers. */
const listedPieces = async (cwd: string): Promise<readonly Listed[]> =>
  (await installedPieces(cwd)).map(({ name, kind, needs, options, source, about }) => {
    const known = Object.hasOwn(pieces, name) ? pieces[name] : undefined;
    return {
      name,
      kind,
      needs,
      options: { ...known?.options, ...options },
      source: known && !source.startsWith(known.source) ? `${source}; ${known.source}` : source,
      about,
    };
  });

function table(all: readonly Listed[]): string {
  const section = (title: string, listed: readonly Listed[], last: string): string =>
    [
      pc.bold(title),
      columns([
        [pc.dim('name'), pc.dim('kind'), pc.dim('needs'), pc.dim(last)],
        ...listed.map(({ name, kind, options, needs, source, about }) => [
          printPiece(name, options),
          kind,
          needs.join(', ') || 'nothing',
          kind === 'policy' ? `${about}; ${source}` : source,
        ]),
      ]),
    ].join('\n');
  return [
    section(
      "Policies, for --policy, with their options' defaults",
      all.filter(({ kind }) => kind === 'policy'),
      'what and source',
    ),
    '',
    section(
      "Pieces, to compose with ∘ (such as --policy 'snapkv(window=16) ∘ caote ∘ topK')",
      all.filter(({ kind }) => kind !== 'policy'),
      'source',
    ),
  ].join('\n');
}
