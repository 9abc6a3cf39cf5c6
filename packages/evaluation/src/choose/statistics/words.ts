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
  const points = (loss: number): string => (100 * loss).toFixed(1),
    number = n === clusters ? documentsText(clusters) : `${n} prompts of ${documentsText(clusters)}`,
    said = kind === 'same' ? `${points(mean)} % of answers changed` : `${points(mean)} points of the grade lost`,
    unit = kind === 'same' ? ' %' : '';
  return `${said} (${percent(level)} interval ${points(low)} to ${points(high)}${unit}; ${number}, a ${evidenceLevel(clusters, chose ? 'dev' : 'confirm')})`;
}

/**
 * Says why a number of documents cannot show that a candidate keeps within a loss, and which number could; undefined
 * if they can.
 */
export function powerNote(documents: number, lose: number, options: IntervalOptions): string | undefined {
  const shown = smallestShown(documents, options);
  if (lose >= shown) return undefined;
  const needed = documentsNeeded(lose, options),
    takes = needed < Infinity ? `${needed} documents without any loss` : 'more documents than there are';
  return `${documentsText(documents)} cannot show that less than ${percent(lose, 1)} is lost, at best less than ${percent(shown, 1)}: that takes ${takes}.`;
}

const documentsText = (count: number): string => `${count} document${count === 1 ? '' : 's'}`;
