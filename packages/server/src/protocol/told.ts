import type { Usage } from '../run/job.ts';
import type { Answer } from './protocol.ts';

/**
 * What a client is told of the caches of its answers, in every protocol and in the header `x-kv-usage`. Slots and live
 * bytes are sums over the answers; `tokens.dropped` counts the tokens of which no layer and KV head holds anything.
 */
export interface RetentionUsage {
  readonly slots?: { readonly kept: number; readonly dropped: number };
  readonly bytes?: { readonly live: number; readonly peak: number };
  readonly tokens: {
    readonly read: number;
    readonly reused: number;
    readonly dropped?: number;
    /** Tokens that no eviction drops, at least: those that the request and the server protect. */
    readonly protected: number;
  };
  readonly policy: string;
  readonly budget?: Answer['budget'];
  /** What a person should know of it, such as a share that was raised. */
  readonly notes?: readonly string[];
}

/** Returns what is told of an answer: all of it once its usage is known, and before that what holds from the start. */
export const toldOf = ({ policy, budget, protectedTokens, read }: Answer, usage?: Usage): RetentionUsage => ({
  ...(usage && {
    slots: { kept: usage.keptSlots, dropped: usage.droppedSlots },
    bytes: { live: usage.cache.liveBytes, peak: usage.cache.peakBytes },
  }),
  tokens: {
    read: (usage ?? read).tokensRead,
    reused: (usage ?? read).tokensReused,
    ...(usage && { dropped: usage.tokensDropped }),
    protected: protectedTokens,
  },
  policy,
  ...(budget !== undefined && { budget }),
  ...(usage && usage.notes.size > 0 && { notes: [...usage.notes] }),
});

/** The header that says it but for the notes, for clients that see no body: one line of JSON in ASCII. */
export const toldHeader = ({ notes: _, ...told }: RetentionUsage): Readonly<Record<'x-kv-usage', string>> => ({
  'x-kv-usage': JSON.stringify(told).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  ),
});
