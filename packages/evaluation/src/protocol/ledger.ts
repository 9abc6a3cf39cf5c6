import { relative } from 'node:path';
import { KvError } from '@kv/core';
import { digest, openStore } from '../jobs/store.ts';
import type { ConfirmOutcome, ProbeOutcome } from './outcomes.ts';

/** What happened to a set of ids to confirm on, in order. */
type Entry =
  | { readonly kind: 'probe'; readonly probe: ProbeOutcome }
  /** A configuration whose answers to ids to confirm on were begun. */
  | { readonly kind: 'begun'; readonly config: string }
  | { readonly kind: 'confirm'; readonly confirm: ConfirmOutcome }
  /** A configuration that was asked for again after it was written. */
  | { readonly kind: 'again'; readonly config: string };

/** Remembers, for the ids of one problem file, what was chosen and every look at ids to confirm on. */
export interface Ledger {
  readonly path: string;
  /** The newest probe of a plan. */
  probed(plan: string): ProbeOutcome | undefined;
  /** What a plan's configuration came to, or the newest one of the plan. */
  confirmed(plan: string, config?: string): ConfirmOutcome | undefined;
  /** Looks at these ids so far: configurations that were begun, and readings again. */
  looks(): number;
  begun(config: string): boolean;
  add(entry: Entry): void;
}

/** An entry in its file: each names all lines before it, so that none can be missing; an older kv named none. */
type Line = Entry & { readonly after?: string };

/** Names lines: what named those before the last, and the last. */
const named = (before: string, line: Line): string => digest({ before, line });

/** What names all lines. @throws KvError where one is not the one that followed those before it */
function chained(lines: readonly Line[], called: string): string {
  const start = lines.findIndex(({ after }) => after !== undefined);
  return lines.reduce((before, line, i) => {
    if (start >= 0 && i >= start && line.after !== before)
      throw new KvError(
        `${called}, line ${i + 2}`,
        'expected the line that followed those before it, got another: a look may be missing or not where it was',
      );
    return named(before, line);
  }, '');
}

/**
 * The ledger of these ids in a folder: lines are only added to it. Each use reads it, so that others may write it too.
 * It is no cache: a line that was damaged, removed, moved or put between others is an error, but for a last one that a
 * kill cut off. Lines removed from its end are not seen.
 * @throws KvError where it cannot be read, with the line
 */
export function openLedger(folder: string, confirm: readonly string[]): Ledger {
  const opened = () => {
      const store = openStore<Line>({
        folder,
        name: 'protocol',
        settings: { confirm: digest([...confirm].sort()) },
        strict: true,
      });
      return { ...store, after: chained(store.found, relative(process.cwd(), store.path)) };
    },
    { path } = opened();
  return {
    path,
    probed: (plan) =>
      opened()
        .found.flatMap((entry) => (entry.kind === 'probe' && entry.probe.plan === plan ? [entry.probe] : []))
        .at(-1),
    confirmed: (plan, config) =>
      opened()
        .found.flatMap((entry) => (entry.kind === 'confirm' && entry.confirm.plan === plan ? [entry.confirm] : []))
        .findLast((one) => config === undefined || one.config === config),
    looks: () => opened().found.filter(({ kind }) => kind === 'begun' || kind === 'again').length,
    begun: (config) => opened().found.some((entry) => entry.kind === 'begun' && entry.config === config),
    add: (entry) => {
      const { ready, add, after } = opened();
      ready();
      add({ ...entry, after });
    },
  };
}
