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

/** How many inputs a reader gets: `share` of the `KV_FUZZ` inputs of a long run, else a few. */
export function inputs(share: number, few: number): { numRuns: number } {
  const all = Number(process.env.KV_FUZZ ?? 0);
  if (!Number.isSafeInteger(all) || all < 0) throw new Error(`KV_FUZZ must be a count, got ${process.env.KV_FUZZ}`);
  return { numRuns: Math.max(few, Math.ceil(all * share)) };
}

/** How long a test of these may take, milliseconds; a long run has hours. */
export const patience: number = process.env.KV_FUZZ === undefined ? 120_000 : 4 * 3_600_000;

/**
 * A file in memory that fails, not as a file would, when it is asked for bytes that it does not have: a reader must
 * know before.
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
 * What `load` gives, or undefined if it refused in one sentence; anything else that it throws is a failure, and so is
 * more than two seconds of work.
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
 * Tries `load`, which gives whether an input was loaded, on many inputs. Some must load and some must not, or the
 * inputs show nothing.
 * Holds the process to 1 GiB more memory than before: a length that was believed would take it.
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
