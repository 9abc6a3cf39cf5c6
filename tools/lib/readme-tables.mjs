import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { packageFolders, published } from './manifests.mjs';
import { root } from './process.mjs';

/** READMEs of the root and of every package, those without one left out, and documents with tables. */
export const readmes = () =>
  [
    ...packageFolders().map((folder) => relative(root, join(folder, 'README.md'))),
    'docs/packages.md',
    'docs/models.md',
  ].filter((file) => existsSync(join(root, file)));

const BLOCK = /^<!-- begin (\S+) .*-->\n([^]*?)^<!-- end \1 -->$/gm;

/**
 * Returns a README with its blocks between `<!-- begin BLOCK (…) -->` and `<!-- end BLOCK -->` generated again.
 *
 * @param file relative to the root
 * @param all what `declared()` gives
 * @throws Error in one sentence for a block that is not known or has no end
 */
export function refreshed(file, all) {
  const text = readFileSync(join(root, file), 'utf8');
  const whole = [...text.matchAll(BLOCK)].length;
  const begun = text.match(/^<!-- begin /gm)?.length ?? 0;
  if (begun !== whole) throw new Error(`${file} begins ${begun} blocks: expected as many ends, got ${whole}`);
  return text.replace(BLOCK, (_, name) => {
    const lines = blocks[name];
    if (!lines) throw new Error(`${file} has the block '${name}': expected one of ${Object.keys(blocks).join(', ')}`);
    return `<!-- begin ${name} (npm run readmes) -->\n${lines(all, file).join('\n')}\n<!-- end ${name} -->`;
  });
}

const blocks = {
  /** Declarations of this package. */
  pieces: (all, file) => {
    const { manifest } = published().find(({ folder }) => join(folder, 'README.md') === file) ?? {};
    return table(['piece, its options', 'default', 'what it is'], factoriesOf(all, manifest?.name).flatMap(pieceRows));
  },
  /** Methods of papers. */
  methods: (all) =>
    table(['policy', 'composition', 'what it does', 'source'], factoriesOf(all, '@kv/policies').map(methodRow)),
  /** Policies to try first. */
  recommended: (all) =>
    table(
      ['when', 'policy'],
      all['@kv/policies'].recommendedPolicies.map(({ when, policy }) => [when, code(policy)]),
    ),
  /** Scorers of the catalogue that need nothing else, by package. */
  scorers: (all) =>
    catalogued(all, undefined, ({ kind, takes }) => kind === 'scorer' && takes === 'nothing').map(
      ([link, names]) => `- ${link}: ${names}`,
    ),
  /** Packages of pieces in the catalogue, one row per family; core and policies have rows of their own. */
  packages: (all, file) => {
    const known = catalogued(all, relative(dirname(file), '.') || '.', () => true).map((cells) => [
      /packages\/([^/]+)\/[^/]+\)$/.exec(cells[0])?.[1],
      cells,
    ]);
    const families = [...new Set(known.flatMap(([family]) => family ?? []))];
    const ofFamily = (family) => known.filter(([other]) => other === family).map(([, cells]) => cells.join(' '));
    return table(
      ['family', 'pieces'],
      families.map((family) => [family, ofFamily(family).join('; ')]),
    );
  },
  /** What a token adds to the caches of a model of each family. */
  growth: (all) =>
    table(
      ['for example', 'what mixes tokens', 'bytes a token (f16)', 'also held', 'what policies evict', 'checkpoints'],
      all.growthRows(join(root, 'packages/model-testing/fixtures')),
    ),
  ...Object.fromEntries(
    Object.entries({
      load: ['@kv/models', 'LOAD'],
      generate: ['@kv/engine', 'GENERATE'],
      chat: ['@kv/engine', 'CHAT'],
      send: ['@kv/engine', 'SEND'],
      prefillParts: ['@kv/engine', 'PREFILL_PARTS'],
      sequence: ['@kv/engine', 'SEQUENCE'],
      loadCache: ['@kv/engine', 'LOAD_CACHE'],
      prefixStore: ['@kv/engine', 'PREFIX_STORE'],
      server: ['@kv/server', 'SERVER'],
      limits: ['@kv/server', 'LIMITS'],
      conversations: ['@kv/server', 'CONVERSATIONS'],
      store: ['@kv/stores', 'STORE'],
    }).map(([name, [from, schema]]) => [
      `options-${name}`,
      (all) =>
        table(
          ['option', 'default', 'what it is'],
          Object.entries(all.schemas[from][schema]).filter(isGiven).map(optionRow),
        ),
    ]),
  ),
};

/** Whether callers give an option: what a copy of a sequence starts with, the engine gives. */
const isGiven = ([name]) => name !== 'start';

/** An option of a function. */
const optionRow = ([name, option]) => [
  code(name),
  option.required ? '(must be given)' : (option.otherwise ?? standard(option)),
  `${option.says} ${sentence(option.form.want)}`,
];

const factoriesOf = (all, name) => Object.values(all[name] ?? {}).filter(all['@kv/core'].isFactory);

/** Returns name (as a link, if `up` leads to the root) and pieces of every package in the catalogue. */
function catalogued(all, up, fits) {
  const known = all['@kv/core'].entries(all['@kv/policies'].catalogue);
  return published().flatMap(({ folder, manifest: { name } }) => {
    const fitting = known.filter((entry) => entry.package === name && fits(entry.factory.description));
    if (fitting.length === 0) return [];
    const names = fitting.map(({ factory }) => factory.description.name).sort();
    return [[up === undefined ? code(name) : `[${code(name)}](${join(up, folder)})`, names.map(code).join(', ')]];
  });
}

const TAKES = { scorer: 'a scorer', scorers: 'scorers', terms: 'pairs `[weight, scorer]`', policy: 'a policy' };
/** A piece, then its options. */
const pieceRows = ({ description }) => [
  [
    `**${code(description.name)}**`,
    description.kind,
    [description.says, ...phases(description), ...source(description)].join(' '),
  ],
  ...Object.entries(description.options).map(([name, option]) => [
    code(name),
    standard(option),
    `${option.says} ${sentence(option.form.want)}`,
  ]),
];
const phases = ({ kind, takes, from = [], to }) => [
  ...(TAKES[takes] ? [`Takes ${TAKES[takes]} before its options.`] : []),
  ...(from.length === 1 && from[0] === 'weights' ? ['Needs weights.'] : []),
  ...(to === 'weights' ? ['Leaves weights.'] : to === 'same' && kind === 'transform' ? ['Leaves what it finds.'] : []),
];
const source = ({ source }) => (source === '' || source.startsWith('@kv/') ? [] : [`(${source})`]);

function methodRow(factory) {
  const { name, says, source, options } = factory.description;
  const chosen = Object.entries(options).map(([key, option]) => `${key} = ${plain(option)}`);
  return [
    code(chosen.length > 0 ? `${name}({ ${chosen.join(', ')} })` : `${name}()`),
    factory().label,
    says,
    /^[a-z]+\//.test(source) ? `ours: ${code(source)}` : source,
  ];
}

const code = (text) => `\`${text}\``;
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;
/** Writes a default as code; a piece by its label. */
const plain = ({ default: value, as }) =>
  as ?? (typeof value === 'object' ? value.label : typeof value === 'string' ? `'${value}'` : String(value));
const standard = (option) => (option.default === undefined && !option.as ? '' : code(plain(option)));

const row = (cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
const table = (head, rows) => [row(head), row(head.map(() => '---')), ...rows.map(row)];
