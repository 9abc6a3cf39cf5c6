import { join, relative } from 'node:path';
import { KvError } from '@kv/core';
import { digest, foundStores, lockStore, openStore } from '../jobs/store.ts';
import type { ConfirmOutcome, ProbeOutcome } from './outcomes.ts';
import type { LoadedPlan } from './plan.ts';

/** What happened to a set of ids to confirm on, in order. */
type Entry =
  | { readonly kind: 'probe'; readonly probe: ProbeOutcome }
  /** A configuration whose answers to ids to confirm on were begun. */
  | { readonly kind: 'begun'; readonly config: string }
  | { readonly kind: 'confirm'; readonly confirm: ConfirmOutcome }
  /** A configuration that was asked for again after it was written. */
  | { readonly kind: 'again'; readonly config: string };

/** A configuration that was begun or asked for again, and what names the texts of the problems that it was asked on. */
interface Look {
  readonly config: string;
  readonly texts: readonly string[];
}

/** Remembers, for the ids of one problem file, what was chosen and every look at ids to confirm on. */
export interface ConfirmationLog {
  readonly path: string;
  /** The newest probe of a plan. */
  probed(plan: string): ProbeOutcome | undefined;
  /** What a plan's configuration came to, or the newest one of the plan. */
  confirmed(plan: string, config?: string): ConfirmOutcome | undefined;
  /** Looks so far, by any plan of the folder, at some of the problems with these texts; without them at its own. */
  looks(texts?: readonly string[]): readonly Look[];
  begun(config: string): boolean;
  /** Probes so far of any plan with these ids to confirm on. */
  probes(): number;
  /** Reads and adds while no other process adds to a ledger of the folder: what was read still holds then. */
  write<T>(work: (add: (entry: Entry) => void) => T): Promise<T>;
}

/** An entry in its file: each names all lines before it, so that none can be missing, and a look the texts it read. */
type Line = Entry & { readonly texts?: readonly string[]; readonly after: string };

const looksOf = (lines: readonly Line[]): readonly Look[] =>
  lines.flatMap((line) =>
    line.kind === 'begun' || line.kind === 'again' ? [{ config: line.config, texts: line.texts ?? [] }] : [],
  );

/** Names lines: what named those before the last, and the last. */
const named = (before: string, line: Line): string => digest({ before, line });

/** What names all lines. @throws KvError where one is not the one that followed those before it */
const chained = (lines: readonly Line[], called: string): string =>
  lines.reduce((before, line, i) => {
    if (line.after !== before)
      throw new KvError(
        `${called}, line ${i + 2}`,
        'expected the line that followed those before it, got another: a look may be missing or not where it was',
      );
    return named(before, line);
  }, '');

/**
 * The ledger of these ids in a folder: lines are only added to it. Each use reads it, so that others may write it too.
 * It is no cache: a line that was damaged, removed, moved or put between others is an error, but for a last one that a
 * kill cut off. Lines removed from its end are not seen. Looks are counted in every ledger of the folder.
 * @throws KvError where one cannot be read, with the line
 */
export function openLedger(folder: string, { confirm, texts }: Pick<LoadedPlan, 'confirm' | 'texts'>): ConfirmationLog {
  const own = confirm.map((id) => texts.get(id)!), // a plan names each of its texts
    called = (path: string): string => relative(process.cwd(), path),
    opened = () => {
      const store = openStore<Line>({
        folder,
        name: 'protocol',
        settings: { confirm: digest([...confirm].sort()) },
        strict: true,
      });
      return { ...store, after: chained(store.found, called(store.path)) };
    },
    { path } = opened(),
    others = (): readonly Look[] =>
      [...foundStores<Line>(folder, 'protocol')].flatMap(([other, lines]) => {
        if (other === path) return [];
        chained(lines, called(other));
        return looksOf(lines);
      });
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
    looks: (at = own) => {
      const asked = new Set(at);
      // the same ids are looked at again whatever their problems say now
      return [
        ...looksOf(opened().found).map((look) => ({ ...look, texts: [...own, ...look.texts] })),
        ...others(),
      ].filter((look) => look.texts.some((text) => asked.has(text)));
    },
    begun: (config) => opened().found.some((entry) => entry.kind === 'begun' && entry.config === config),
    probes: () => opened().found.filter(({ kind }) => kind === 'probe').length,
    write: async (work) => {
      const release = await lockStore(join(folder, 'protocol'));
      try {
        return work(add);
      } finally {
        await release();
      }
    },
  };
  function add(entry: Entry): void {
    const { ready, add: append, after } = opened();
    ready();
    append({ ...entry, ...((entry.kind === 'begun' || entry.kind === 'again') && { texts: own }), after });
  }
}
