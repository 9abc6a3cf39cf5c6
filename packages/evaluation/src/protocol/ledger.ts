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

/** The ledger of these ids in a folder: lines are only added to it. @throws KvError where it cannot be read */
export function openLedger(folder: string, confirm: readonly string[]): Ledger {
  const { path, found, add, ready } = openStore<Entry>({
      folder,
      name: 'protocol',
      settings: { confirm: digest([...confirm].sort()) },
    }),
    entries = [...found];
  return {
    path,
    probed: (plan) =>
      entries.flatMap((entry) => (entry.kind === 'probe' && entry.probe.plan === plan ? [entry.probe] : [])).at(-1),
    confirmed: (plan, config) =>
      entries
        .flatMap((entry) => (entry.kind === 'confirm' && entry.confirm.plan === plan ? [entry.confirm] : []))
        .findLast((one) => config === undefined || one.config === config),
    looks: () => entries.filter(({ kind }) => kind === 'begun' || kind === 'again').length,
    begun: (config) => entries.some((entry) => entry.kind === 'begun' && entry.config === config),
    add: (entry) => {
      ready();
      add(entry);
      entries.push(entry);
    },
  };
}
