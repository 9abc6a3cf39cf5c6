import { freezingDepth, windowShare } from '@kv/certificates';
import type {
  Certificates,
  Constants,
  LayerBound,
  Reuse,
  Rounding,
  Spread,
  Summary,
  Surrogate,
} from '@kv/certificates';

const number = (x: number): string => x.toFixed(4);
const spread = ({ mean, max }: Spread): string => `${number(mean)} on average, ${number(max)} at most`;
const summary = (what: string, { rows, dropped, best, overlap, divergence, entropy }: Summary): readonly string[] => [
  `${what}, ${rows} query rows:`,
  `  attention mass dropped (total variation)  ${spread(dropped)}`,
  `  the least that sets of that size drop     ${spread(best)}`,
  `  overlap with those sets                   ${number(overlap.mean)} on average`,
  `  KL divergence of what is left, nats       ${spread(divergence)}`,
  `  bound on the change of entropy, nats      ${spread(entropy)}`,
];

const reused = ({ rows, beyond, bound, printed }: Reuse): readonly string[] => [
  `Reused sets, ${rows} query rows:`,
  `  dropped beyond the least                  ${spread(beyond)}`,
  `  bound by the distance of the queries      ${spread(bound)}${exceeded(beyond.mean, bound.mean, LEFT_OUT)}`,
  `  bound as printed, for queries of length 1 ${spread(printed)}`,
];
const estimated = ({ rows, logitError, byLogits, byVariation }: Surrogate): readonly string[] => [
  `Chosen by scores, taken as estimates of the logits, ${rows} query rows:`,
  `  largest error of a logit                  ${spread(logitError)}`,
  `  bound on what is dropped by that error    ${spread(byLogits)}`,
  `  bound by the total variation of the two   ${spread(byVariation)}`,
];
const coarser = ({ rows, logitError, variation, dropped, valueError }: Rounding): readonly string[] => [
  `Rounded keys and values, ${rows} query rows, at most:`,
  `  error of a logit                          ${spread(logitError)}`,
  `  change of the weights (total variation)   ${spread(variation)}`,
  `  mass dropped, that change counted         ${spread(dropped)}`,
  `  length of what a value has lost           ${spread(valueError)}`,
];
/** Notes that a measurement exceeds its bound, if it does: the bound is a fit, which a run may leave. */
const exceeded = (measured: number, bound: number, by: string): string =>
  measured > bound ? `, which it exceeds by ${number(measured - bound)}: ${by}` : '';
const windowBound = ({ dropped, fitted, covering, fit: missed }: NonNullable<LayerBound['window']>): string => {
  const above = dropped.mean > covering.mean;
  return `window drops ${number(dropped.mean)}, bound ${number(fitted.mean)}${exceeded(dropped.mean, fitted.mean, above ? 'this run fades more slowly than any row that was calibrated' : fit(missed))} (over all that was calibrated ${number(covering.mean)}${above ? ', exceeded too' : ''})`;
};
const layerBound = ({ layer, window, freezing, joint }: LayerBound): string =>
  `  layer ${layer + 1}: ${[
    ...(window ? [windowBound(window)] : []),
    ...(freezing
      ? [
          `${freezing.positions} frozen positions move at most ${number(freezing.worst)} (mean query ${number(freezing.average)}, over all that was calibrated ${number(freezing.covering)})`,
        ]
      : []),
  ].join('; ')}; together at most ${number(joint)}`;
const LEFT_OUT = 'sinks, local window and newer slots count in it, which the theorem leaves out';
const fit = ({ error, above }: { readonly error: number; readonly above: number }): string =>
  `fit's error ${error.toPrecision(2)} in the logarithm, points up to ${above.toPrecision(2)} above it`;

/** Shares of the mass for which the design rules are printed. */
const ALLOWED: readonly number[] = [0.05, 0.01];

/** Describes fitted constants, a line each, and what they require of PSAW and ETF. */
export function constantLines({ tokens, layers, dim, queryNorm, keyNorm, fading, change }: Constants): string {
  const top = fading.at(-1),
    Q = `mean query ${queryNorm.mean.toPrecision(3)}, largest ${queryNorm.max.toPrecision(3)}`;
  return `${[
    `${tokens} tokens; ${Q}, largest key ${keyNorm.toPrecision(3)}`,
    ...fading.flatMap((x, l) =>
      x ? [`layer ${l + 1}: lambda ${x.rate.toPrecision(3)}, sinks hold ${number(x.sinkMass)}; ${fit(x)}`] : [],
    ),
    change
      ? `keys change from layer to layer by at most B exp(-mu depth): B ${change.scale.toPrecision(3)}, mu ${change.rate.toPrecision(3)}; ${fit(change)}`
      : `too few layers from ${Math.floor((3 * layers) / 4)} on to fit how keys change`,
    ...ALLOWED.flatMap((allowed) => [
      ...(top && top.rate > 0 && top.sinkMass < 1
        ? [
            `for ${allowed} of the mass: phi^alpha of at least ${number(windowShare({ sinkMass: top.sinkMass, allowed, rate: top.rate, t: tokens }))} at position ${tokens}`,
          ]
        : []),
      ...(change && change.rate > 0
        ? [
            `for ${allowed} of the mass: layers above its earliest start at which freezing may begin: ${freezingDepth({ queryNorm: queryNorm.mean, dim, scale: change.scale, rate: change.rate, allowed }).toFixed(1)}`,
          ]
        : []),
    ]),
  ].join('\n')}\n`;
}

/** Describes a run's certificates, a line each. */
export function certificateLines({
  events,
  views,
  retrievalRatio,
  reuse,
  surrogate,
  rounding,
  fading,
  schedules,
}: Certificates): string {
  const lines = [
    ...(events ? summary('Evictions', events) : []),
    ...(views ? summary('Views', views) : []),
    ...(retrievalRatio !== undefined ? [`Retrievals of what could have retrieved: ${number(retrievalRatio)}`] : []),
    ...(reuse ? reused(reuse) : []),
    ...(surrogate ? estimated(surrogate) : []),
    ...(rounding ? coarser(rounding) : []),
    ...(schedules ? ['Windows and frozen positions, by the constants given:', ...schedules.map(layerBound)] : []),
    ...(fading
      ? [
          `Attention beyond the sinks (${number(fading.sinkMass)}) fades as exp(-${fading.rate.toPrecision(3)} age), fitted with an error of ${fading.error.toPrecision(2)} in the logarithm`,
        ]
      : []),
  ];
  return lines.length === 0 ? 'Nothing was evicted or hidden.\n' : `${lines.join('\n')}\n`;
}
