import { slotsOf } from '@kv/core';
import { compile, exactSlotsOf, isShare } from '@kv/core/engine';
import type { Budget, Policy } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { sum } from '@kv/engine-webgpu';
import { policySizes, slotSizes, windowOf } from '@kv/engine';
import type { ModelConfig } from '@kv/models';
import { policy as policyOf, policyNames } from '@kv/policies';
import { colors as pc } from '../colors.ts';
import { fitColumns, reflow } from '../columns.ts';
import { plannedCosts, predict, secondPass } from './predict.ts';
import type { DeviceCost } from './device-cost.ts';

/** What a policy reads, which determines its cost. */
type Kind = 'no attention' | 'window' | 'sums' | 'pass';

/** Costs of one policy on a device. */
export interface DeviceRow {
  readonly name: string;
  readonly kind: Kind;
  readonly device: DeviceCost;
}

/**
 * Classifies a policy: a pass over the model or over all slots' attention, running sums, a window of queries, or none
 * of these.
 */
const kindOf = ({ needs }: CompiledPolicy, length: number): Kind =>
  needs.some(
    (signal) =>
      secondPass(signal) ||
      signal.id === 'attention.block' ||
      signal.id === 'values.output' ||
      windowOf(signal) >= length,
  )
    ? 'pass'
    : needs.some(({ cost }) => cost === 'pass')
      ? 'sums'
      : needs.some((signal) => windowOf(signal) > 0)
        ? 'window'
        : 'no attention';

/** Policies with an option for the heads that they sum over. */
const SUMMED: ReadonlySet<string> = new Set(['h2o', 'meanAttention']);
/** Policies that read the queries of the whole prompt. */
const WHOLE: ReadonlySet<string> = new Set(['compactor', 'noncausalAttention']);

/**
 * Returns a row for every evicting policy of the catalogue with default options (non-causal attention with a window of
 * the whole prompt) whose forced slots fit the budget; policies with running sums also with sums per KV head.
 */
export async function deviceRows(config: ModelConfig, length: number, budget: Budget): Promise<readonly DeviceRow[]> {
  const asked = policyNames.flatMap((name): (readonly [string, Policy])[] => [
    [name, policyOf(name, WHOLE.has(name) ? { window: length } : undefined)],
    ...(SUMMED.has(name) ? [[`${name}(rows=kv)`, policyOf(name, { rows: 'kv' })] as const] : []),
  ]);
  const rows: DeviceRow[] = [],
    costs = await plannedCosts(config);
  for (const [name, made] of asked) {
    const policy = compile(made),
      slots = isShare(budget) ? length : Math.floor(exactSlotsOf(budget, length, policySizes(config, 'f32', policy)));
    if (!policy.evicts || policy.least(length, Math.max(1, slots)) > slots) continue;
    const { device } = await predict(policy, config, length, budget, 'f32', costs);
    if (device) rows.push({ name, kind: kindOf(policy, length), device });
  }
  if (rows.length === 0) slotsOf(budget, length, slotSizes(config, 'f32')); // says so where bytes hold no slot
  return rows;
}

const percent = (x: number): string => `${(100 * x).toPrecision(2)} %`;

/** Returns titles, and a row of cells per policy. */
const deviceCells = (rows: readonly DeviceRow[], layers: number): readonly (readonly string[])[] => [
  [
    'policy',
    'looks at',
    'dispatches a layer',
    'MiB: score + select + compact',
    "of prefill's bytes",
    'of its operations',
    'of its time',
    'rows of running sums',
    'of the bytes of keys and values: waiting, at once',
  ],
  ...rows.map(({ name, kind, device: { score, select, compact, shares, sums } }) => {
    const { dispatches, bytes } = [score, select, compact].reduce(sum),
      mib = (x: number): string => (x / 2 ** 20).toFixed(0);
    return [
      name,
      kind,
      (dispatches / layers).toFixed(0),
      `${[score, select, compact].map((x) => mib(x.bytes)).join(' + ')} = ${mib(bytes)}`,
      percent(shares.bytes),
      percent(shares.operations),
      percent(shares.time),
      ...(sums ? [String(sums.rows), `${percent(sums.waits)}, ${percent(sums.follows)}`] : ['', '']),
    ];
  }),
];

/** Formats the rows for a terminal of this width, and explains the columns. */
export function deviceText(rows: readonly DeviceRow[], layers: number, width: number): string {
  const [, ...body] = deviceCells(rows, layers),
    short = (share: string): string => (Number.parseFloat(share) < 0.01 ? '< .01 %' : share),
    cells = body.map(([name, reads, dispatches, mib, bytes, operations, time, heads, moved]) => [
      name,
      reads,
      dispatches,
      mib.replace(/.* = /, ''),
      ...[bytes, operations, time].map(short),
      heads === '' ? '' : `${heads}: ${moved}`,
    ]);
  const titles = ['policy', 'reads', 'calls', 'MiB', 'bytes', 'ops', 'time', 'sums'],
    legend =
      "calls, MiB: dispatches a layer and bytes of an eviction (score, select, compact); bytes, ops, time: its shares of prefill's bytes, operations and time; sums: rows of running sums, and the bytes that they move for a token as shares of those of keys and values, where it waits for the next token and where an eviction follows at once";
  return `${fitColumns([titles.map(pc.dim), ...cells], new Set([2, 3, 4, 5, 6]), width)}\n\n${pc.dim(reflow(legend, width))}`;
}

/** Formats the rows as a Markdown table. */
export function deviceTable(rows: readonly DeviceRow[], layers: number): string {
  const [head, ...body] = deviceCells(rows, layers);
  return [head, head.map(() => '---'), ...body]
    .map((cells) => `| ${cells.join(' | ')} |`.replaceAll('  ', ' '))
    .join('\n');
}
