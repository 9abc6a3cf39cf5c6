/**
 * `npm run site`: the site of apps/docs, generated from the sources, built and served; with `-- --build` only built, into
 * apps/docs/dist.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { install } from './lib/install.mjs';
import { packageFolders, published } from './lib/manifests.mjs';
import { fail, root, run } from './lib/process.mjs';

await install('all');
const { runExample } = await import('./lib/readme.mjs'),
  { asPage } = await import('./site/links.mjs'),
  { overview, pageOf, piecePage, programPage } = await import('./site/pages.mjs');

const app = join(root, 'apps/docs'),
  generated = join(app, '.generated'),
  read = (file) => readFileSync(join(root, file), 'utf8');
const write = (file, text) => {
  mkdirSync(dirname(join(generated, file)), { recursive: true });
  writeFileSync(join(generated, file), text);
};
async function step(says, command, ...args) {
  console.error(`site: ${says}`);
  const { code, output } = await run(command, args);
  if (code !== 0) fail(`${output}site: '${command}' failed: see above.`, code);
}

rmSync(generated, { recursive: true, force: true });
rmSync(join(app, 'dist'), { recursive: true, force: true });

// The playground, a build of its own
await step('the playground', 'turbo', 'run', 'build', '--filter=@kv/playground', '--output-logs=errors-only');
cpSync(join(root, 'apps/playground/dist'), join(generated, 'public/playground'), { recursive: true });

// What is said of pieces: declarations, predictions, and a run of each
console.error('site: what every piece keeps and costs');
const factsFile = join(generated, 'facts.json');
process.env.KV_FACTS = factsFile;
await runExample('tools/site', read('tools/site/facts.ts'));
const facts = JSON.parse(readFileSync(factsFile, 'utf8'));
rmSync(factsFile);

// Pages of the repository, at their places
const pages = new Map([
  ['README.md', 'start.md'],
  ['CONTRIBUTING.md', 'contributing.md'],
  ['examples/README.md', 'examples/index.md'],
]);
for (const name of readdirSync(join(root, 'docs'))) if (name.endsWith('.md')) pages.set(`docs/${name}`, `docs/${name}`);
for (const name of readdirSync(join(app, 'guides'))) pages.set(`apps/docs/guides/${name}`, `guides/${name}`);
for (const folder of packageFolders().map((path) => relative(root, path)))
  if (folder !== '' && existsSync(join(root, folder, 'README.md')))
    pages.set(`${folder}/README.md`, `${folder}/index.md`);
for (const picture of ['kept', 'architecture'])
  cpSync(join(root, `docs/${picture}.svg`), join(generated, `public/docs/${picture}.svg`), { recursive: true });
cpSync(join(root, 'apps/playground/public/icon.svg'), join(generated, 'public/icon.svg'));
// a README's text is also for npm, where only names of packages lead anywhere
const places = new Map([
  ...pages,
  ...published().map(({ folder, manifest: { name } }) => [name, `${folder}/index.md`]),
]);
const hasFile = (file) => existsSync(join(generated, 'public', file));
/** `<<< FILE` of a guide is a program with what it prints. */
const withPrograms = (text) =>
  text.replace(/^<<< (\S+)$/gm, (_, file) => programPage('', '', file, read(file)).split('\n\n').slice(2).join('\n\n'));
for (const [file, page] of pages) {
  const text = asPage(withPrograms(read(file)), file, page, places, hasFile);
  write(page, file === 'README.md' ? text.replace(/^# .*$/m, '# Start in five minutes') : text);
}

// A page a piece and a method
const readmeOf = new Map(published().map(({ folder, manifest: { name } }) => [name, `${folder}/README.md`]));
/** What a README says of a piece: its section, or where it has none what stands before the first example. */
function equationOf(file, name) {
  const text = asPage(read(file), file, 'pieces/x.md', places),
    [, section] = text.split(new RegExp(`^## (?:\\S+, )*\`${name}\`.*$`, 'm'));
  return (section?.split(/^## /m)[0] ?? text.split(/^```|^## |^`npm i |^\| /m)[0].replace(/^# .*$/m, ''))
    .replace(/^(?:[ \t]*\n)+/, '')
    .trimEnd();
}
for (const piece of facts.pieces) {
  const file = readmeOf.get(piece.package),
    equation = piece.kind === 'method' || !file?.match(/^packages\/[^/]+\/[^/]+\//) ? '' : equationOf(file, piece.name);
  const readme = file && pages.get(file)?.replace(/index\.md$/, '');
  write(`${pageOf(piece)}.md`, piecePage(piece, { ...facts, readme, equation }));
  if (piece.svg) write(`public/kept/${piece.name}-${piece.kind}.svg`, piece.svg);
}
const isMethod = ({ kind }) => kind === 'method',
  byName = [...facts.pieces].sort((a, b) => a.name.localeCompare(b.name)),
  methods = byName.filter(isMethod),
  pieces = byName.filter((piece) => !isMethod(piece));
write(
  'methods/index.md',
  overview('Methods of papers', 'Each is a composition under a name; `--policy NAME` runs it.', methods),
);
write(
  'pieces/index.md',
  overview('Pieces', 'Joined by `|` or `∘` they are a policy, such as `snapkv(window=16) | caote | topK`.', pieces),
);

// Programs
const titles = {
  'secret.mjs': ['The first program', 'A secret in 720 tokens, found with 64 of them kept.'],
  'kept-map.mjs': ['A picture of kept sets', 'Which tokens two policies keep, as SVG.'],
};
const programs = readdirSync(join(root, 'examples')).filter((name) => name.endsWith('.mjs'));
for (const name of programs) {
  const source = read(`examples/${name}`),
    [title, lead] = titles[name] ?? [
      name
        .replace('.mjs', '')
        .replaceAll('-', ' ')
        .replace(/^./, (c) => c.toUpperCase()),
      '',
    ];
  write(`examples/${name.replace('.mjs', '.md')}`, programPage(title, lead, `examples/${name}`, source));
}

// The API, from docstrings
const documented = [
  'core',
  'policies',
  'models',
  'laws',
  'evaluation',
  'tasks',
  'certificates',
  'hub',
  'server',
  'gpu',
  'gpu-models',
];
await step(
  'the API',
  process.execPath,
  join(app, 'node_modules/typedoc/bin/typedoc'),
  ...['--plugin', pathToFileURL(join(app, 'node_modules/typedoc-plugin-markdown/dist/index.js')).href],
  ...['--options', join(app, 'typedoc.json'), '--out', join(generated, 'api')],
  ...documented.flatMap((name) => ['--entryPoints', join(root, `packages/${name}/src/index.ts`)]),
);

for (const file of ['index', ...documented.map((name) => `${name}/src`)].map((name) => `api/${name}.md`))
  write(
    file,
    readFileSync(join(generated, file), 'utf8')
      .replace(/^# kv$/m, '# API')
      .replace(/^# (\S+)\/src$/m, '# @kv/$1')
      .replace(/\[([a-z-]+)\/src\]/g, '[@kv/$1]'),
  );

const item = (text, link) => ({ text, link });
const packagePages = [...pages].filter(([file]) => /^packages\//.test(file));
const sidebar = [
  {
    text: 'Start',
    items: [
      item('In five minutes', '/start'),
      item('The command line', '/docs/command-line'),
      item('Models', '/docs/models'),
      item('From kvpress', '/docs/from-kvpress'),
      item('Evidence', '/docs/evidence'),
    ],
  },
  { text: 'The algebra', items: [item('Composition', '/docs/algebra'), item('Design', '/docs/design')] },
  {
    text: 'Guides',
    items: [
      item('Choosing a policy', '/guides/choosing'),
      item('An engine of your own', '/guides/own-engine'),
      item('Documents and saved caches', '/guides/documents'),
      item('In a browser', '/guides/browser'),
      item('transformers.js', '/packages/adapters/transformers/'),
      item('node-llama-cpp', '/packages/adapters/node-llama-cpp/'),
      item('A server', '/packages/server/'),
      item('A piece of your own', '/guides/own-piece'),
      item('Testing it: laws', '/packages/laws/'),
      item('Publishing it', '/packages/create-piece/'),
      item('Contributing', '/contributing'),
    ],
  },
  {
    text: 'Examples',
    collapsed: true,
    items: [item('All', '/examples/'), ...programs.map((name) => item(name, `/examples/${name.replace('.mjs', '')}`))],
  },
  {
    text: 'Methods of papers',
    collapsed: true,
    items: [item('All', '/methods/'), ...methods.map((piece) => item(piece.name, `/${pageOf(piece)}`))],
  },
  {
    text: 'Pieces',
    collapsed: true,
    items: [item('All', '/pieces/'), ...pieces.map((piece) => item(piece.name, `/${pageOf(piece)}`))],
  },
  {
    text: 'Packages',
    collapsed: true,
    items: [
      item('All', '/docs/packages'),
      ...packagePages.map(([file, page]) =>
        item(dirname(file).replace('packages/', ''), `/${page.replace(/index\.md$/, '')}`),
      ),
    ],
  },
  {
    text: 'API',
    collapsed: true,
    items: [item('All', '/api/'), ...documented.map((name) => item(`@kv/${name}`, `/api/${name}/src`))],
  },
];
for (const { text, link } of sidebar.flatMap(({ items }) => items))
  if (!existsSync(join(generated, `${link.replace(/\/$/, '/index')}.md`)))
    fail(`site: the menu's '${text}' must lead to a page, but ${link} is none`);
write('site.json', JSON.stringify({ sidebar }));
write(
  'index.md',
  `---
layout: home
hero:
  name: kv
  text: KV-cache retention as an algebra
  tagline: Compose, prove, run and compare policies that decide which tokens a language model keeps.
  actions:
    - { theme: brand, text: Start in five minutes, link: /start }
    - { theme: alt, text: Playground, link: /playground/index.html, target: _self }
features:
  - { title: ${pieces.length} pieces, details: 'Scorers, transforms, allocators and selectors, each with laws and a float64 oracle.', link: /pieces/ }
  - { title: ${methods.length} methods of papers, details: 'Each is a composition of a few lines, with what it keeps and what it costs.', link: /methods/ }
  - { title: Evidence, details: 'What papers promised, and what came of it here.', link: /docs/evidence }
---
`,
);

process.chdir(app);
const { build, serve } = await import(pathToFileURL(join(app, 'node_modules/vitepress/dist/node/index.js')).href);
console.error(`site: ${facts.pieces.length} pieces and methods, ${pages.size} pages of the repository`);
await build(app).catch((error) => fail(`site: ${error.message ?? error}`));
const args = process.argv.slice(2);
if (!args.includes('--build')) {
  const at = args.indexOf('--port');
  await serve({ root: app, port: at < 0 ? 4173 : Number(args[at + 1]) });
}
