import type { Certificates, Spread, Summary } from '@kv/certificates';

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

/** What a run's certificates say, a line each. */
export function certificateLines({ events, views, retrievalRatio, fading }: Certificates): string {
  const lines = [
    ...(events ? summary('Evictions', events) : []), ...(views ? summary('Views', views) : []),
    ...(retrievalRatio !== undefined ? [`Retrievals of what could have retrieved: ${number(retrievalRatio)}`] : []),
    ...(fading ? [`Attention beyond the sinks (${number(fading.sinkMass)}) fades as exp(-${fading.rate.toPrecision(3)} age), fitted with an error of ${fading.error.toPrecision(2)} in the logarithm`] : []),
  ];
  return lines.length === 0 ? 'Nothing was evicted or hidden.\n' : `${lines.join('\n')}\n`;
}
