import fc from 'fast-check';

/** Runs the same cases on every machine: FC_SEED chooses others, FC_RUNS their number. */
fc.configureGlobal({ seed: integer('FC_SEED', 42), numRuns: integer('FC_RUNS', 100) });

function integer(name: string, fallback: number): number {
  const text = process.env[name];
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new Error(`${name} must be an integer, got ${JSON.stringify(text)}`);
  return value;
}
