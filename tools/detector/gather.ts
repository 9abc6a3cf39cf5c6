import type { HostModel } from '@kv/models';
import { random } from '@kv/tasks';
import { documents } from './documents.ts';
import type { Document, Matter } from './documents.ts';
import { collector } from './examples.ts';
import type { Examples } from './mlp.ts';
import { forms, services, withoutValue } from './patterns.ts';
import { see } from './states.ts';
import type { Seen } from './states.ts';

/** Everything that passes through the model: examples to learn from, and documents of held-out text. */
export interface Gathered {
  readonly examples: Examples;
  /** Tokens of the documents to learn from. */
  readonly tokens: number;
  /** Of the model. */
  readonly fingerprint: string;
  /** By name: documents whose patterns were learned (with other words, services and prose), and whose were not. */
  readonly sets: Readonly<Record<string, readonly Seen[]>>;
  readonly prose: readonly Seen[];
  /** Texts that end in a sign without its value. */
  readonly unfinished: readonly Seen[];
}
export interface GatherOptions {
  readonly seed: string;
  /** How often each anchor occurs. */
  readonly times: number;
  /** Sentences to learn from, and held-out ones. */
  readonly sentences: readonly string[];
  readonly held: readonly string[];
  say(what: string): void;
}
/** How often each anchor occurs in held-out text, by set. */
const TIMES = { text: 4, patterns: 16 },
  SENTENCES = 8;

/** Makes the documents and runs the model over them. */
export async function gather(
  model: HostModel,
  { seed, times, sentences, held, say }: GatherOptions,
): Promise<Gathered> {
  const made = documents(
    forms,
    times,
    { sentences, services: services.learned, lines: ({ learned }) => learned },
    random(`detector ${seed}`),
  );
  const collect = collector(model.config.hidden, random(`examples ${seed}`)),
    test = random(`test ${seed}`);
  let tokens = 0;
  for (const [i, document] of made.entries()) {
    const seen = await see(model, document);
    tokens += seen.ids.length;
    collect.add(seen);
    if ((i + 1) % 50 === 0) say(`${i + 1} of ${made.length} documents, ${tokens} tokens`);
  }
  const all = async (of: readonly Document[]): Promise<readonly Seen[]> => {
    const out: Seen[] = [];
    for (const document of of) out.push(await see(model, document));
    say(`${of.length} held-out documents`);
    return out;
  };
  const unseen = (count: number, lines: Matter['lines']): readonly Document[] =>
    documents(forms, count, { sentences: held, services: services.heldOut, lines }, test);
  return {
    examples: collect.take(),
    fingerprint: model.fingerprint,
    tokens,
    sets: {
      'held-out text': await all(unseen(TIMES.text, ({ learned }) => learned)),
      'held-out patterns': await all(unseen(TIMES.patterns, ({ heldOut }) => heldOut)),
    },
    prose: await all(
      Array.from({ length: Math.min(24, Math.floor(held.length / SENTENCES)) }, (_, i) => ({
        text: held.slice(SENTENCES * i, SENTENCES * (i + 1)).join(' '),
        lines: [],
      })),
    ),
    unfinished: await all(
      Array.from({ length: 5 * withoutValue.length }, (_, i) => ({
        text: `${test.pick(held)}\n${withoutValue[i % withoutValue.length]}`,
        lines: [],
      })),
    ),
  };
}
