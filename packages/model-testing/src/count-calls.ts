import { Session } from 'node:inspector/promises';

/** Returns how often functions of these names ran during `act`, in this thread, by V8's count. */
export async function countCalls<N extends string>(
  names: readonly N[],
  act: () => PromiseLike<unknown>,
): Promise<Readonly<Record<N, number>>> {
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    await session.post('Profiler.takePreciseCoverage'); // resets the counters
    await act();
    const { result } = await session.post('Profiler.takePreciseCoverage'),
      functions = result.flatMap(({ url, functions: all }) => (/@kv|packages|apps/.test(url) ? all : []));
    const times = (name: N): number =>
      functions
        .filter(({ functionName }) => functionName === name)
        .reduce((sum, { ranges: [first] }) => sum + (first?.count ?? 0), 0);
    return Object.fromEntries(names.map((name) => [name, times(name)])) as Record<N, number>;
  } finally {
    session.disconnect();
  }
}
