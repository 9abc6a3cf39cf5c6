/** Pages of pieces, methods and examples, as Markdown. */

const percent = (share) => `${(100 * share).toPrecision(2)} %`;
const kib = (bytes) => `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KiB`;
const code = (text) => `\`${text}\``;
const cell = (text) => String(text).replaceAll('|', '\\|').replaceAll('\n', ' ');
const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.map(cell).join(' | ')} |`).join('\n');

/** Returns the path of a piece's page: a name belongs to one piece, one method, or one of each. */
export const pageOf = ({ name, kind }) => `${kind === 'method' ? 'methods' : 'pieces'}/${name}`;

/** Says when to use a piece, and what to take instead. */
const whenToUse = ({ when, instead, measured }, link) => [
  '## When to use it',
  when,
  ...(measured ? [`${measured} [The evidence](/docs/evidence) has the conditions.`] : []),
  table(
    ['take instead', 'when'],
    Object.entries(instead).map(([name, where]) => [link(name), where]),
  ),
];

/** Shows how to run a policy: once, in the playground, and on many prompts. */
const runIt = (policy, line) => [
  '## Run it',
  ...(line
    ? [
        `In a clone; elsewhere \`npx @kv/cli\` takes the place of \`npm run -s kv --\` ([how](/start)):`,
        `\`\`\`sh\nnpm run -s kv -- ${line}\n\`\`\``,
      ]
    : []),
  `[In the playground, next to the full cache](/playground/index.html#a=${encodeURIComponent(policy)}&b=full){: target="_self"}, or on 60 prompts, compared with it:`,
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
  const { name, kind, says, source, signals, takes, after, leaves, options, beside, example, cost, svg, use, line } =
    piece;
  const link = (other) => {
    const named = pieces.filter((one) => one.name === other),
      found = named.find((one) => one.kind !== 'method') ?? named[0];
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
    ...(use ? whenToUse(use, link) : []),
    ...(svg || line ? runIt(example, line) : []),
    ...(use ? ['## What it is'] : []),
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
              ...(cost.eventShare === undefined
                ? []
                : [['the event on a GPU', `${percent(cost.eventShare)} of the operations of prefill`]]),
              [
                'cache',
                `${kib(cost.bytes.before)} before, ${kib(cost.bytes.after)} after, at most ${kib(cost.bytes.peak)} on the way`,
              ],
              [
                'besides',
                `rings ${kib(cost.bytes.rings)}, statistics ${kib(cost.bytes.statistics)}, numbers of pieces ${kib(cost.bytes.pieceNumbers)}`,
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

const rows = (pieces) =>
  table(
    ['name', 'what it does', ...(pieces.some(({ use }) => use) ? ['when to use it'] : ['source'])],
    pieces.map((piece) => [`[${code(piece.name)}](/${pageOf(piece)})`, piece.says, piece.use?.when ?? piece.source]),
  );
const WIDE = '---\npageClass: wide\naside: false\n---';

/** Lists all pieces, by kind. */
export function piecesOverview(pieces) {
  const kinds = [...new Set(pieces.map(({ kind }) => kind))].sort();
  return [
    WIDE,
    '# Pieces',
    'Joined by `|` or `∘` they are a policy, such as `snapkv(window=16,kernel=17,pooling=max) | caote | topK`.',
    ...kinds.flatMap((kind) => [
      `## ${kind[0].toUpperCase()}${kind.slice(1)}s`,
      rows(pieces.filter((piece) => piece.kind === kind)),
    ]),
  ].join('\n\n');
}

/** Lists all methods: those to try first, compositions under a name, and scorers that are a method by themselves. */
export function methodsOverview(pieces, recommended) {
  const link = (policy) => {
    const name = /^\w+/.exec(policy)[0];
    return `[${code(policy)}](/${pageOf(pieces.find((piece) => piece.name === name))})`;
  };
  return [
    WIDE,
    '# Methods',
    '`--policy NAME` runs one, and so does `policy` of `generate` and `Chat`.',
    '## Try these first',
    table(
      ['when', 'policy'],
      recommended.map(({ when, policy }) => [when, link(policy)]),
    ),
    '## Compositions under a name',
    rows(pieces.filter(({ kind }) => kind === 'method')),
    '## A scorer alone',
    'Without a selector, `topK` follows.',
    rows(pieces.filter(({ kind, use }) => kind !== 'method' && use)),
  ].join('\n\n');
}

/** Splits a program from what it says that it prints. */
export function programOf(source) {
  const [whole, said = ''] = /^\/\/ prints:\n((?:\/\/ .*\n)+)/m.exec(source) ?? [''];
  return { code: source.replace(whole, '').trim(), output: said.replace(/^\/\/ /gm, '').trimEnd() };
}

/** Shows a program and its output; `tools/test/examples.test.ts` compares them. */
export function shownProgram(file, source) {
  const { code, output } = programOf(source);
  return [
    `\`\`\`${file.endsWith('.html') ? 'html' : 'js'}\n${code}\n\`\`\``,
    ...(output ? [`It prints\n\n\`\`\`text\n${output}\n\`\`\``] : []),
    ...(/^examples\/.*\.mjs$/.test(file)
      ? [`\`npm run -s example -- ${file}\` runs it in a clone; a test compares what it prints.`]
      : []),
  ].join('\n\n');
}

/** The page of a program. */
export const programPage = (title, lead, file, source) => [`# ${title}`, lead, shownProgram(file, source)].join('\n\n');
