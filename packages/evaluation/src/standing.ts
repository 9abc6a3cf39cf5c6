/** Below this many problems what came out is a screening. */
export const VERDICT = 200;

/** What so many problems are good for. @remarks Seed 003, section 3.2: deltas at n = 50 shrank at n = 200. */
export const standing = (n: number): 'screening' | 'verdict' => (n < VERDICT ? 'screening' : 'verdict');
