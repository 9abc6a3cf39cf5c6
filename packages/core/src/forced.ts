import type { Draft, Ends, Forcer, Step } from './atoms.ts';
import type { Options, Settled } from './option.ts';

/** Slots that steps force whatever the text is, where they are more than these: unions of first and of last positions. */
export function endsOf(steps: readonly Pick<Step, 'ends'>[], budget: number): Required<Ends> {
  const all = steps.flatMap(({ ends }) => ends?.(budget) ?? []);
  return { first: Math.max(0, ...all.map((e) => e.first ?? 0)), last: Math.max(0, ...all.map((e) => e.last ?? 0)) };
}

/** The most slots that steps together force in a head, as they declare it. */
export function floorOf(steps: readonly Step[], slots: number, budget: number): number {
  const both = ({ first, last }: Required<Ends>): number => first + last,
    beyond = (step: Step): number =>
      Math.max(0, step.floor(slots, budget) - Math.min(slots, both(endsOf([step], budget))));
  return Math.min(
    slots,
    steps.reduce((sum, step) => sum + beyond(step), both(endsOf(steps, budget))),
  );
}

/** Who forces slots: the piece, with those of its options that `reads` looks at. */
export function forcerOf<O extends Options>(
  name: string,
  reads: (options: Settled<O>) => unknown,
  o: Settled<O>,
): Forcer {
  const options: Record<string, unknown> = {};
  const noted = new Proxy(o, {
    get(target, key: string) {
      const value: unknown = target[key];
      options[key] = value;
      return value;
    },
  });
  try {
    reads(noted);
  } catch {
    // only words go by this call: what throws is told where its slots are asked for
  }
  return { name, options };
}

/** Forcers of two drafts, each once; nothing where nobody forces. */
export const forcersOf = (...drafts: readonly Pick<Draft, 'forcedBy'>[]): readonly Forcer[] | undefined => {
  const all = drafts.flatMap(({ forcedBy = [] }) => forcedBy),
    once = all.filter((by, i) => all.findIndex((other) => forcerText([other]) === forcerText([by])) === i);
  return once.length === 0 ? undefined : once;
};

/** `snapkv(window=64) and mandatory(sinks=4,recent=0)`. */
export const forcerText = (forcers: readonly Forcer[]): string =>
  forcers
    .map(({ name, options }) => {
      const said = Object.entries(options).map(([key, value]) => `${key}=${String(value)}`);
      return said.length === 0 ? name : `${name}(${said.join(',')})`;
    })
    .join(' and ');

/** What to change where so many slots are forced and the budget is smaller, as the end of a sentence. */
export function wayOut(count: number, forcers: readonly Forcer[] = []): string {
  const options = [...new Set(forcers.flatMap((forcer) => Object.keys(forcer.options)))];
  return `expected a budget of at least ${count}${options.length > 0 ? `, or a smaller ${options.join(' or ')}` : ''}${
    forcers.length > 0 ? `, as ${forcerText(forcers)} force${forcers.length === 1 ? 's' : ''} them` : ''
  }`;
}
