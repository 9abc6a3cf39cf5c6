/** Below this many problems what came out is a screening. */
export const VERDICT = 200;

/**
 * What a number of problems is good for; ids to choose on (`part` dev) are never more than a screening.
 *
 * @remarks The alpha paper, section 3.2: deltas at n = 50 shrank at n = 200.
 */
export const standing = (n: number, part?: 'dev' | 'confirm'): 'screening' | 'verdict' =>
  n < VERDICT || part === 'dev' ? 'screening' : 'verdict';

/** What takes more. */
export const screeningLegend = `Fewer than ${VERDICT} problems, or ids to choose on, are a screening, not a verdict.`;
