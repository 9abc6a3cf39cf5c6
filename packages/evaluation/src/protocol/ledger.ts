import { join, relative } from 'node:path';
import { KvError } from '@kv/core';
import { digest, foundStores, lockStore, openStore } from '../jobs/store.ts';
import type { ConfirmOutcome, ProbeOutcome } from './outcomes.ts';
import type { LoadedPlan } from './plan.ts';

/** An event in the history of a set of confirmation ids. */
type Entry =
  | { readonly kind: 'probe'; readonly probe: ProbeOutcome }
  /** A configuration whose confirmation run has begun. */
  | { readonly kind: 'begun'; readonly config: string }
  | { readonly kind: 'confirm'; readonly confirm: ConfirmOutcome }
  /** A configuration that was asked for again after its result was written. */
  | { readonly kind: 'again'; readonly config: string };

/** A configuration that was begun or asked for again, with hashes of the texts of its problems. */
interface Look {
  readonly config: string;
  readonly texts: readonly string[];
}

/** Log of the choices made and of every look at the confirmation ids of one problem file. */
export interface ConfirmationLog {
  readonly path: string;
  /** Returns the newest probe of a plan. */
  probed(plan: string): ProbeOutcome | undefined;
  /** Returns the confirmation of a plan's configuration, or the newest one of the plan. */
  confirmed(plan: string, config?: string): ConfirmOutcome | undefined;
  /**
   * Returns all looks so far, by any plan of the folder, at some problem with one of these texts. @defaultValue the
   * log's own texts
   */
  looks(texts?: readonly string[]): readonly Look[];
  begun(config: string): boolean;
  /** Returns the number of probes so far by any plan with these confirmation ids. */
  probes(): number;
  /** Runs `work` with the folder's logs locked against other processes, so that what it reads stays current. */
  write<T>(work: (add: (entry: Entry) => void) => T): Promise<T>;
}

/**
 * An entry in the file. Each line holds the hash of all lines before it, so that none can be removed unnoticed; a look
 * also holds the texts it read.
 */
type Line = Entry & { readonly texts?: readonly string[]; readonly after: string };

const looksOf = (lines: readonly Line[]): readonly Look[] =>
  lines.flatMap((line) =>
    line.kind === 'begun' || line.kind === 'again' ? [{ config: line.config, texts: line.texts ?? [] }] : [],
  );

/** Hash of a chain of lines: of the hash before and the last line. */
const named = (before: string, line: Line): string => digest({ before, line });

/** Returns the hash of all lines. @throws KvError for a line that does not continue the chain */
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
 * Opens the append-only log of these ids in a folder. Every use reads the file again, so that other processes may
 * append. A line that was damaged, removed, moved or inserted is an error, except a last one cut off by a kill; lines
 * removed from the end are not detected. Looks are counted over every log of the folder. @throws KvError for one that
 * cannot be read, with the line
 */
export function openLedger(folder: string, { confirm, texts }: Pick<LoadedPlan, 'confirm' | 'texts'>): ConfirmationLog {
  const own = confirm.map((id) => texts.get(id)!), // a plan has the hash of each text
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
      // a look at the same ids counts even if their problems have changed
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
