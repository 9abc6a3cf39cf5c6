import { evidenceLevel } from '../../evidence-level.ts';
import { percent } from '../../numbers.ts';
import { documentsNeeded, smallestShown } from './loss-interval.ts';
import type { IntervalOptions, LossInterval } from './loss-interval.ts';

/**
 * Says what a candidate lost, how sure that is, and on how much: a verdict, or a screening.
 *
 * @param options.chose whether these documents chose the candidate: then it is never a verdict; default false
 */
export function lossText(
  { mean, low, high, n, clusters }: LossInterval,
  { kind, level = 0.95, chose = false }: IntervalOptions & { readonly chose?: boolean },
): string {
  const number = n === clusters ? documentsText(clusters) : `${n} prompts of ${documentsText(clusters)}`,
    said =
      kind === 'same'
        ? `${points(mean)} % of answers changed`
        : isGain(mean)
          ? `${points(-mean)} points better than the full cache`
          : `${points(mean)} points of the grade lost`;
  return `${said} (${percent(level)} interval ${rangeText(low, high, kind)}; ${number}, a ${evidenceLevel(clusters, chose ? 'dev' : 'confirm')})`;
}

/** Writes a share in percent; no zero is below 0. */
const points = (loss: number): string => (Number((100 * loss).toFixed(1)) || 0).toFixed(1);
/** Whether a loss is a gain, as it is shown. */
export const isGain = (loss: number): boolean => Number(points(loss)) < 0;

/** Writes an interval without signs: what is below 0 is gained. */
function rangeText(low: number, high: number, kind: IntervalOptions['kind']): string {
  if (!isGain(low)) return `${points(low)} to ${points(high)}${kind === 'same' ? ' %' : ''}`;
  return isGain(high) ? `${points(-high)} to ${points(-low)}` : `${points(-low)} better to ${points(high)} worse`;
}

/**
 * Says why a number of documents cannot show that a candidate keeps within a loss, and which number could; undefined
 * if they can.
 */
export function powerNote(documents: number, lose: number, options: IntervalOptions): string | undefined {
  const shown = smallestShown(documents, options);
  if (lose >= shown) return undefined;
  const needed = documentsNeeded(lose, options),
    takes =
      needed < Infinity
        ? `It takes at least ${needed} to confirm on, so some ${2 * needed} in all, as half of them choose.`
        : 'No number of documents shows that.';
  return `${documentsText(documents)} cannot show a loss below ${percent(lose, 1)}: even if none lost anything, they would only show that it is below ${percent(shown, 1)}. ${takes}`;
}

const documentsText = (count: number): string => `${count} document${count === 1 ? '' : 's'}`;
