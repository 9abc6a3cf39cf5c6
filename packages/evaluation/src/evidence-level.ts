/** With fewer problems a result is a screening. */
export const VERDICT = 200;

/**
 * Returns the evidence level of a number of problems; dev ids (`part` dev) are never more than a screening.
 *
 * @remarks The alpha paper, section 3.2: deltas at n = 50 shrank at n = 200.
 */
export const evidenceLevel = (n: number, part?: 'dev' | 'confirm'): 'screening' | 'verdict' =>
  n < VERDICT || part === 'dev' ? 'screening' : 'verdict';

/** Explains what is not a verdict. */
export const screeningLegend = `Fewer than ${VERDICT} problems, or ids to choose on, are a screening, not a verdict.`;
