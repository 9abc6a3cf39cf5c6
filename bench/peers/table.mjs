import { spread } from '../lib/spread.mjs';
import { table } from '../lib/table.mjs';

/**
 * The results of llama-cpp.mjs as Markdown: medians with the smallest and largest turn, and the ratio within each turn.
 */
export function report(info, cases, results, logits) {
  const row = ({ name }, { ours, peer }) => [
    name,
    ...['prefill', 'decode'].flatMap((part) => {
      const of = (list) => list.map((one) => one[part]),
        digits = part === 'prefill' ? 0 : 1;
      return [
        spread(of(ours), digits),
        spread(of(peer), digits),
        spread(
          of(ours).map((x, i) => x / of(peer)[i]),
          2,
        ),
      ];
    }),
  ];
  const agree = Object.entries(logits).map(
    ([name, { relative, top1 }]) =>
      `${name}: largest difference ${(100 * relative).toFixed(2)} % of the largest logit, same first token in ${(100 * top1).toFixed(0)} %`,
  );
  return `# @kv/models against ${info.peer}

${info.date}, ${info.cpu} (${info.cores} cores, ${info.threads} threads), Node ${info.node}, ${info.file}; tokens a second, median (smallest-largest) of ${info.turns} turns that alternate;
ratios are of the same turn, above 1 is faster than the peer. Ours is ${info.engine}. Caches are stored as ${info.cache ?? 'each engine does by default'}. Blocks of 512 in both. With a budget ours evicts by snapkv(window=32) after each block; the peer keeps everything.

    ${info.command}

${table([['', 'prefill, ours', 'peer', 'ratio', 'decode, ours', 'peer', 'ratio'], ...cases.map((one, i) => row(one, results[i]))])}

Bytes of the whole process at the end: ours ${mebibytes(info.memory.ours)}, the peer's ${mebibytes(info.memory.peer)}.

Logits in the same run, 16 places of a prompt of 256:

${agree.map((text) => `- ${text}`).join('\n')}
`;
}

const mebibytes = (bytes) => `${Math.round(bytes / 2 ** 20).toLocaleString('en')} MiB`;
