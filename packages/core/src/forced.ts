import type { Draft, Forcer } from './atoms.ts';
import type { Options, Settled } from './option.ts';

/** Who forces slots by a `floor`: the piece, with those of its options that the floor goes by. */
export function forcerOf<O extends Options>(
  name: string,
  floor: (options: Settled<O>, slots: number, budget: number) => number,
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
    floor(noted, 1, 1);
  } catch {
    // only words go by this call: a floor that throws is told where its slots are asked for
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
  return `expected a budget of at least ${count}${options.length > 0 ? `, or less in ${options.join(' or ')}` : ''}${
    forcers.length > 0 ? `, as ${forcerText(forcers)} force${forcers.length === 1 ? 's' : ''} them` : ''
  }`;
}
