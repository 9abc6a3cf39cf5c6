/** Pages of pieces, methods and examples, as Markdown. */

const percent = (share) => `${(100 * share).toPrecision(2)} %`;
const kib = (bytes) => `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KiB`;
const code = (text) => `\`${text}\``;
const cell = (text) => String(text).replaceAll('|', '\\|').replaceAll('\n', ' ');
const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.map(cell).join(' | ')} |`).join('\n');

/** Returns the path of a piece's page: a name belongs to one piece, one method, or one of each. */
export const pageOf = ({ name, kind }) => `${kind === 'method' ? 'methods' : 'pieces'}/${name}`;

/** Shows how to run a policy: in the playground, on prompts next to others, in a program. */
const runIt = (policy) => [
  '## Run it',
  `[In the playground, beside the full cache](/playground/index.html#a=${encodeURIComponent(policy)}&b=full){: target="_self"}, or in a clone, on 60 prompts beside it:`,
  `\`\`\`sh\nnpm run -s kv -- needle --budgets 25% --prompts 20 --policy '${policy}'\n\`\`\``,
];

const TAKES = { scorer: 'a scorer', scorers: 'scorers', terms: 'WEIGHT*SCORER, ...', policy: 'a policy' };
const KINDS = {
  transform: 'Transforms',
  allocator: 'Allocators',
  unit: 'Units',
  selector: 'Selectors',
  scorer: 'Scorers',
};

/** @param equation the README's text about the piece, without headings */
export function piecePage(piece, { tokens, layers, heads, pieces, readme, equation }) {
  const { name, kind, says, source, signals, takes, after, leaves, options, beside, example, cost, svg } = piece;
  const link = (other) => {
    const found = pieces.find((one) => one.name === other && one.kind !== 'method');
    return found ? `[${code(other)}](/${pageOf(found)})` : code(other);
  };
  const facts = [
    ['kind', kind],
    ['source', source],
    ['package', readme === undefined ? code(piece.package) : `[${code(piece.package)}](/${readme})`],
    ['reads', signals.map(code).join(', ') || 'no signals'],
    ...(takes === 'nothing' ? [] : [['takes', TAKES[takes]]]),
    ...(after && leaves
      ? [
          ['stands after', after.join(', ')],
          ['leaves', leaves === 'same' ? 'what it finds' : leaves],
        ]
      : []),
    ...(example ? [['in a policy', code(example)]] : []),
  ];
  const composes = Object.entries(beside).filter(([, names]) => names.length > 0);
  return [
    `# ${name}`,
    says,
    table(['', ''], facts),
    ...(equation ? ['## Equation', equation] : []),
    ...(options.length > 0
      ? [
          '## Options',
          table(
            ['option', 'default', 'what it is'],
            options.map(({ key, value, want, says: meaning }) => [
              code(key),
              value === '' ? '' : code(value),
              `${meaning} (${want})`,
            ]),
          ),
        ]
      : []),
    ...(svg
      ? [
          '## What it keeps',
          `${code(piece.label)} on a text of ${tokens} tokens, with ${piece.asked} slots in each of ${layers} layers and ${heads} KV heads: tokens from left to right, first layer above; the stronger, the more KV heads keep a token. The orange part is a secret that the end of the text asks for; the embedded model said “${piece.answer}”.`,
          `![Tokens that ${name} keeps, by layer](/kept/${name}-${kind}.svg)`,
        ]
      : []),
    ...(svg ? runIt(example) : []),
    ...(cost
      ? [
          '## Cost',
          `${code(`kv explain '${example}' --length ${cost.length} --budget ${cost.budget}`)} on the embedded model:`,
          table(
            ['', ''],
            [
              ['evicts', cost.when],
              ['passes', cost.passes.join('; ')],
              ['their multiply-adds', `${percent(cost.passShare)} of prefill`],
              ['the event on a GPU', `${percent(cost.eventShare)} of the operations of prefill`],
              [
                'cache',
                `${kib(cost.bytes.before)} before, ${kib(cost.bytes.after)} after, at most ${kib(cost.bytes.peak)} on the way`,
              ],
              [
                'beside it',
                `rings ${kib(cost.bytes.rings)}, statistics ${kib(cost.bytes.statistics)}, states ${kib(cost.bytes.states)}`,
              ],
            ],
          ),
        ]
      : []),
    ...(composes.length > 0
      ? [
          '## What composes with it',
          ...composes.map(([other, names]) => `**${KINDS[other] ?? other}**: ${names.map(link).join(', ')}.`),
        ]
      : []),
  ].join('\n\n');
}

/** Lists all of them, by kind. */
export function overview(title, lead, pieces) {
  const kinds = [...new Set(pieces.map(({ kind }) => kind))].sort();
  return [
    '---\npageClass: wide\naside: false\n---',
    `# ${title}`,
    lead,
    ...kinds.flatMap((kind) => [
      ...(kinds.length > 1 ? [`## ${kind[0].toUpperCase()}${kind.slice(1)}s`] : []),
      table(
        ['name', 'what it does', 'source'],
        pieces
          .filter((piece) => piece.kind === kind)
          .map((piece) => [`[${code(piece.name)}](/${pageOf(piece)})`, piece.says, piece.source]),
      ),
    ]),
  ].join('\n\n');
}

/** Shows a program and its output; `tools/test/examples.test.ts` compares them. */
export const programPage = (title, lead, file, source) => {
  const [whole, said = ''] = /^\/\/ prints:\n((?:\/\/ .*\n)+)/m.exec(source) ?? [''];
  const printed = said.replace(/^\/\/ /gm, '').trimEnd();
  return [
    `# ${title}`,
    lead,
    `\`\`\`js\n${source.replace(whole, '').trim()}\n\`\`\``,
    ...(printed ? [`It prints\n\n\`\`\`text\n${printed}\n\`\`\``] : []),
    ...(file.endsWith('.mjs')
      ? [`\`npm run -s example -- ${file}\` runs it in a clone; a test compares what it prints.`]
      : []),
  ].join('\n\n');
};
