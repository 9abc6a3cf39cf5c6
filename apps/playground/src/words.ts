import { LEVELS } from '@kv/core';
import { budgetText } from '@kv/core/engine';
import { fateText, type Fate } from '@kv/engine';
import type { Budget } from '@kv/models';
import { countsOf, holds, levelAt, type CachePosition, type MapRow } from './heat-map.ts';
import type { DeviceInfo, Frame, PromptSummary } from './messages.ts';

/** Describes a run, before and after its fact: `A model reads `, ` among 512 tokens …`. */
export function leadText(
  { offsets, value, questionFrom }: PromptSummary,
  budget: Budget,
): readonly [before: string, after: string] {
  const kept = typeof budget === 'number' ? `${budget} slots a head` : budgetText(budget).replace('%', ' %'),
    late = questionFrom === undefined ? '' : ` before the last ${offsets.length - questionFrom} are read`,
    cut = `${offsets.length} tokens; its KV cache is cut to ${kept}${late}.`;
  return value === undefined
    ? [`A model reads ${cut} How does it go on?`, '']
    : ['A model reads ', ` among ${cut} Does it still know it?`];
}

const number = (digits: number): Intl.NumberFormat => new Intl.NumberFormat('en', { maximumFractionDigits: digits });

/** Formats bytes in units of 1,024. */
export const bytesText = (bytes: number): string =>
  bytes < 1024
    ? `${bytes} B`
    : bytes < 2 ** 20
      ? `${number(1).format(bytes / 1024)} KiB`
      : `${number(2).format(bytes / 2 ** 20)} MiB`;

export const speedText = (tokensPerSecond: number | undefined): string =>
  tokensPerSecond === undefined || !Number.isFinite(tokensPerSecond)
    ? '–'
    : `${number(tokensPerSecond < 10 ? 1 : 0).format(tokensPerSecond)} tokens/s`;

/** Says where the model runs, and if not on WebGPU, why. */
export const deviceText = ({ device, name, because }: DeviceInfo): string =>
  device === 'webgpu' ? `Runs on WebGPU: ${name}.` : `Runs on the CPU (${name}): ${because}.`;

export const countText = (count: number): string => number(1).format(count);

/** Returns a token's text on one line, quoted. */
export const tokenText = (text: string): string => `“${text.replaceAll('\n', '⏎')}”`;

/** Describes one cell of a map: `Token 137 “X”, layer 3, KV head 1: kept; 12 of 16 rows keep it`. */
export function placeText(
  frame: Frame,
  { position, row }: CachePosition,
  text: string,
  { layer, head }: MapRow,
): string {
  const token = `Token ${position} ${tokenText(text)}`,
    kept = holds(frame, { position, row }),
    level = levelAt(frame, { position, row });
  if (kept === undefined) return `${token}: not in the cache yet`;
  const rows = frame.kept.length / frame.length;
  return `${token}, layer ${layer}, KV head ${head}: ${kept ? `kept${level === undefined ? '' : ` in ${LEVELS[level]}`}` : 'dropped'}; ${countsOf(frame)[position]} of ${rows} rows keep it`;
}

/** Describes what became of a token, over all rows. @param fates absent until they are computed */
export function leftText(fates: readonly Fate[] | undefined, failed?: string): string {
  if (failed !== undefined) return failed;
  if (!fates) return 'working out why …';
  if (fates.length === 0) return 'nothing was evicted under this policy.';
  const left = fates.filter((fate) => fate.left !== undefined).length;
  return fates.some(({ why }) => why)
    ? `left ${left} of ${fates.length} KV heads, stays in ${fates.length - left}.`
    : 'no eviction has judged it yet.';
}

/** Returns a sentence on why one row dropped or kept the token. */
export const whyText = (fate: Fate): string => `${fateText(fate).replace(/^l/, 'L')}.`;
