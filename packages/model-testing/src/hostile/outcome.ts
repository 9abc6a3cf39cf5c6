import { KvError } from '@kv/core';
import fc from 'fast-check';
import { expect } from 'vitest';

/** A file in memory, as readers of @kv/checkpoints take it. */
interface Source {
  readonly name: string;
  readonly size: number;
  read(offset: number, length: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Returns the number of inputs of a reader: `share` of the `KV_FUZZ` inputs of a long run, else `few`. */
export function inputs(share: number, few: number): { numRuns: number } {
  const all = Number(process.env.KV_FUZZ ?? 0);
  if (!Number.isSafeInteger(all) || all < 0) throw new Error(`KV_FUZZ must be a count, got ${process.env.KV_FUZZ}`);
  return { numRuns: Math.max(few, Math.ceil(all * share)) };
}

/** Milliseconds that such a test may take; a long run has hours. */
export const patience: number = process.env.KV_FUZZ === undefined ? 120_000 : 4 * 3_600_000;

/**
 * Returns a file in memory that throws an unexpected error if it is asked for bytes that it does not have, since a
 * reader must check first.
 */
export function watchReads(
  bytes: Uint8Array,
  name: string,
): { readonly source: Source; readonly read: () => number; readonly open: () => boolean } {
  let read = 0;
  let open = true;
  const source: Source = {
    name,
    size: bytes.length,
    async read(offset, length) {
      if (
        !Number.isSafeInteger(offset) ||
        !Number.isSafeInteger(length) ||
        offset < 0 ||
        length < 0 ||
        offset + length > bytes.length
      )
        throw new RangeError(`asked for ${length} bytes at ${offset} of ${bytes.length}`);
      read += length;
      return bytes.subarray(offset, offset + length);
    },
    async close() {
      open = false;
    },
  };
  return { source, read: () => read, open: () => open };
}

/**
 * Returns what `load` gives, or undefined if it refused in one sentence. Any other error is a failure, and so is more
 * than two seconds of work.
 */
export async function outcome<T>(load: () => Promise<T>): Promise<T | undefined> {
  const begin = process.cpuUsage();
  try {
    return await load();
  } catch (error) {
    if (!KvError.is(error)) throw error;
    expect(error.message).toMatch(/^[^\n]+ (?:expected|must) [^\n]*, got [^\n]*$/);
    expect(error.message.length).toBeLessThan(1000);
    return undefined;
  } finally {
    const { user, system } = process.cpuUsage(begin);
    expect(user + system).toBeLessThan(2e6);
  }
}

/**
 * Runs `load`, which returns whether an input was loaded, on many inputs. Some must load and some must not, or the
 * inputs test nothing. The process may use at most 1 GiB more memory than before, which trusting a
 * wrong length would exceed.
 */
export async function hostile<T>(
  input: fc.Arbitrary<T>,
  load: (input: T) => Promise<boolean>,
  parameters: { numRuns: number },
): Promise<void> {
  const before = process.resourceUsage().maxRSS;
  let loaded = 0;
  await fc.assert(
    fc.asyncProperty(input, async (value) => {
      if (await load(value)) loaded++;
    }),
    parameters,
  );
  if (process.env.KV_FUZZ !== undefined)
    console.log(`${expect.getState().currentTestName}: ${parameters.numRuns} inputs, ${loaded} loaded`);
  expect(loaded / parameters.numRuns).toBeGreaterThan(0.02);
  expect(loaded / parameters.numRuns).toBeLessThan(0.9);
  expect(process.resourceUsage().maxRSS - before).toBeLessThan(2 ** 20);
}
