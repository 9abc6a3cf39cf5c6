import { KvError } from '@kv/core';
import type { Chunk } from '../options.ts';

/** A generation in progress: await it for the result, or iterate over it for the tokens as they come. */
export interface Generation<R> extends PromiseLike<R>, AsyncIterable<Chunk> {}

/**
 * Returns a generation that several readers may await or iterate over at once. The reader furthest ahead requests the
 * next token; generation ends when no reader is left.
 */
export function generation<R>(begin: () => AsyncGenerator<Chunk, R>): Generation<R> {
  const chunks: Chunk[] = [];
  let generator: AsyncGenerator<Chunk, R> | undefined,
    advancing: Promise<void> | undefined,
    end: { readonly generated: Promise<R> } | undefined,
    readers = 0;
  const finish = (generated: Promise<R>): void => {
    generated.catch(() => {}); // readers get the error themselves
    end ??= { generated };
  };
  /** Produces the next chunk, or the end, for every waiting reader. */
  const advance = async (): Promise<void> => {
    generator ??= begin();
    try {
      const next = await generator.next();
      if (next.done) finish(Promise.resolve(next.value));
      else chunks.push(next.value);
    } catch (error) {
      finish(Promise.reject(error));
    } finally {
      advancing = undefined;
    }
  };
  async function* read(): AsyncGenerator<Chunk, R> {
    readers++;
    try {
      for (let at = 0; ; ) {
        if (at < chunks.length) yield chunks[at++];
        else if (end) return await end.generated;
        else await (advancing ??= advance());
      }
    } finally {
      if (--readers === 0 && !end) await leave();
    }
  }
  const leave = async (): Promise<void> => {
    const tokens = chunks.filter(({ token }) => token !== undefined).length,
      left = `${tokens} token${tokens === 1 ? '' : 's'}`;
    finish(Promise.reject(new KvError('generate', `has no result: its reader stopped after ${left}`)));
    await generator?.return(undefined as never); // its end is known already
  };
  let result: Promise<R> | undefined;
  const drained = async (): Promise<R> => {
    const all = read();
    for (;;) {
      const next = await all.next();
      if (next.done) return next.value;
    }
  };
  return {
    then: (resolve, reject) => (result ??= drained()).then(resolve, reject),
    [Symbol.asyncIterator]: read,
  };
}
