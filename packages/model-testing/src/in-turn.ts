/**
 * Returns the cases that run this time: all of them with KV_FULL=1, else every `of`-th, from the one that KV_TURN chooses
 * (.ci/run sets it to another one for each commit). For tables whose cases take long and each have a test elsewhere.
 */
export function inTurn<T>(cases: readonly T[], of: number): readonly T[] {
  const turn = Number(process.env['KV_TURN'] || 0) % of;
  return process.env['KV_FULL'] === '1' ? cases : cases.filter((_, i) => i % of === turn);
}
