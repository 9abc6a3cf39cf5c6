/**
 * `npm run site`: generates the site of apps/docs from the sources, builds it and serves it on this machine; with
 * `-- --build` only builds it, into apps/docs/dist, which any static host serves as it is.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { install } from './lib/install.mjs';
import { packageFolders, published } from './lib/manifests.mjs';
import { fail, root, run } from './lib/process.mjs';
import { repository } from './lib/release.mjs';

const USAGE = `npm run -s site -- [--build] [--base PATH] [--port NUMBER] [--host ADDRESS]

  --build          only build it, into apps/docs/dist: a folder for any static host
  --base PATH      the path that it lies below (/), such as /kv/
  --port NUMBER    where it is served (4173)
  --host ADDRESS   for whom: 127.0.0.1 for this machine alone (the default), 0.0.0.0 for all that reach it`;
let asked;
try {
  asked = parseArgs({
    options: {
      build: { type: 'boolean', default: false },
      base: { type: 'string', default: '/' },
      port: { type: 'string', default: '4173' },
      host: { type: 'string', default: '127.0.0.1' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  }).values;
} catch (error) {
  fail(`site: ${error.message.split('. ')[0]}; --help says what there is`, 2);
}
if (asked.help) {
  console.log(USAGE);
  process.exit();
}
const port = Number(asked.port);
if (!(Number.isInteger(port) && port >= 0 && port < 65_536))
  fail(`site: --port must be a port from 0 to 65535, got ${asked.port}`, 2);

const base = `/${asked.base}/`.replace(/\/+/g, '/');
if (!/^\/(?:[\w.~-]+\/)*$/.test(base)) fail(`site: --base must be a path such as /kv/, got ${asked.base}`, 2);

await install('all');
const { runExample } = await import('./lib/readme.mjs'),
  { asPage } = await import('./site/links.mjs'),
  { methodsOverview, pageOf, piecePage, piecesOverview, programOf, programPage, shownProgram } = await import(
    './site/pages.mjs'
  ),
  { addGuessable, deadAddresses } = await import('./site/addresses.mjs'),
  { landingPage, measured, panelsOf } = await import('./site/landing.mjs');

const app = join(root, 'apps/docs'),
  generated = join(app, '.generated'),
  read = (file) => readFileSync(join(root, file), 'utf8');
const write = (file, text) => {
  mkdirSync(dirname(join(generated, file)), { recursive: true });
  // VitePress puts the base before links to its own pages
  writeFileSync(join(generated, file), text.replaceAll('](/playground/', `](${base}playground/`));
};
async function step(says, command, ...args) {
  console.error(`site: ${says}`);
  const { code, output } = await run(command, args);
  if (code !== 0) fail(`${output}site: '${command}' failed: see above.`, code);
}

rmSync(generated, { recursive: true, force: true });
rmSync(join(app, 'dist'), { recursive: true, force: true });

// The playground, built separately
await step('the playground', 'turbo', 'run', 'build', '--filter=@kv/playground', '--output-logs=errors-only');
cpSync(join(root, 'apps/playground/dist'), join(generated, 'public/playground'), { recursive: true });

// Facts of pieces: declarations, predictions, and a run of each
console.error('site: what every piece keeps and costs');
const factsFile = join(generated, 'facts.json');
process.env.KV_FACTS = factsFile;
await runExample('tools/site', read('tools/site/facts.ts'));
const facts = JSON.parse(readFileSync(factsFile, 'utf8'));
rmSync(factsFile);

// Markdown files of the repository, at their paths
const pages = new Map([
  ['README.md', 'overview.md'],
  ['CONTRIBUTING.md', 'contributing.md'],
  ['examples/README.md', 'examples/index.md'],
]);
for (const name of readdirSync(join(root, 'docs'), { recursive: true }))
  if (name.endsWith('.md')) pages.set(`docs/${name}`, `docs/${name}`);
for (const name of readdirSync(join(app, 'guides')).filter((file) => file.endsWith('.md')))
  pages.set(`apps/docs/guides/${name}`, name === 'start.md' ? name : `guides/${name}`);
for (const folder of packageFolders().map((path) => relative(root, path)))
  if (folder !== '' && existsSync(join(root, folder, 'README.md')))
    pages.set(`${folder}/README.md`, `${folder}/index.md`);
for (const picture of ['kept', 'architecture'])
  cpSync(join(root, `docs/${picture}.svg`), join(generated, `public/docs/${picture}.svg`), { recursive: true });
cpSync(join(root, 'apps/playground/public/icon.svg'), join(generated, 'public/icon.svg'));
// READMEs are also shown on npm, where only package names resolve
const places = new Map([
  ...pages,
  ...published().map(({ folder, manifest: { name } }) => [name, `${folder}/index.md`]),
]);
// the address to clone from, if this clone knows one
const address = (repository() ?? 'ADDRESS').replace(/^git\+/, '');
const hasFile = (file) => existsSync(join(generated, 'public', file));
/** Replaces `<<< FILE` in a guide by the program and its output. */
const withPrograms = (text) => text.replace(/^<<< (\S+)$/gm, (_, file) => shownProgram(file, read(file)));
for (const [file, page] of pages) {
  const text = asPage(withPrograms(read(file)), file, page, places, hasFile).replaceAll('CLONE_ADDRESS', address);
  write(page, file === 'README.md' ? text.replace(/^# .*$/m, '# Overview') : text);
}

// One page per piece and per method
const readmeOf = new Map(published().map(({ folder, manifest: { name } }) => [name, `${folder}/README.md`]));
/** Returns the part of a README about a piece: its section, or else the text before the first example. */
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
// ignoring case, as some file systems do
const paths = facts.pieces.map((piece) => pageOf(piece).toLowerCase()),
  twice = paths.find((path, i) => paths.indexOf(path) < i);
if (twice) fail(`site: a name must be one page's, but two have ${twice}`);
const isMethod = ({ kind }) => kind === 'method',
  byName = [...facts.pieces].sort((a, b) => a.name.localeCompare(b.name)),
  methods = byName.filter(isMethod),
  pieces = byName.filter((piece) => !isMethod(piece));
write('methods/index.md', methodsOverview(byName, facts.recommended));
write('pieces/index.md', piecesOverview(pieces));

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
  'checkpoints',
  'engine',
  'engine-wasm',
  'engine-onnx',
  'laws',
  'evaluation',
  'tasks',
  'certificates',
  'hub',
  'server',
  'gpu',
  'engine-webgpu',
];
await step(
  'the API',
  process.execPath,
  join(app, 'node_modules/typedoc/bin/typedoc'),
  ...['--plugin', pathToFileURL(join(app, 'node_modules/typedoc-plugin-markdown/dist/index.js')).href],
  ...['--options', join(app, 'typedoc.json'), '--out', join(generated, 'api')],
  ...documented.flatMap((name) => ['--entryPoints', join(root, `packages/${name}/src/index.ts`)]),
);

/** Returns the page of a package in the API; a module with a namespace is a folder. */
const apiPage = (name) =>
  [`api/${name}/src`, `api/${name}/src/index`].find((page) => existsSync(join(generated, `${page}.md`)));
for (const file of ['api/index', ...documented.map(apiPage)].map((page) => `${page}.md`))
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
      item('Overview', '/overview'),
      item('The command line', '/docs/command-line'),
      item('Models', '/docs/models'),
      item('From kvpress', '/docs/from-kvpress'),
      item('Evidence', '/docs/evidence'),
    ],
  },
  {
    text: 'The algebra',
    items: [
      item('Composition', '/docs/algebra'),
      item('Architecture', '/docs/architecture'),
      item('Decisions', '/docs/decisions/README'),
      item('Glossary', '/docs/glossary'),
    ],
  },
  {
    text: 'Guides',
    items: [
      item('All', '/guides/'),
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
    text: 'Methods',
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
    items: [item('All', '/api/'), ...documented.map((name) => item(`@kv/${name}`, `/${apiPage(name)}`))],
  },
];
for (const { text, link } of sidebar.flatMap(({ items }) => items))
  if (!existsSync(join(generated, `${link.replace(/\/$/, '/index')}.md`)))
    fail(`site: the menu's '${text}' must lead to a page, but ${link} is none`);
write('site.json', JSON.stringify({ sidebar, base }));

// Examples are tested; the program that beginners save is run here
const first = 'apps/docs/guides/first.mjs',
  { output } = programOf(read(first));
if ((await runExample('apps/docs/guides', read(first))).trimEnd() !== output)
  fail(`site: ${first} must print what it says that it prints`);

// The first page: its program runs here, and its number is a study's
console.error('site: the first page');
const landing = 'apps/docs/landing',
  program = read(`${landing}/kept-over-time.mjs`),
  { fact, question, tokens } = JSON.parse(await runExample(landing, read(`${landing}/tokens.mjs`))),
  panels = panelsOf(await runExample(landing, program), tokens, fact),
  study = 'studies/hard-half/results-3-SmolLM2-135M-Instruct-4096.json';
if (panels.map(({ isRight }) => isRight).join() !== 'false,true')
  fail(`site: the second policy of ${landing}/kept-over-time.mjs must find ${fact}, and only that one`);
write(
  'landing.json',
  JSON.stringify({
    ...{ panels, question, policy: panels[1].policy, pieces: pieces.length, methods: methods.length },
    asks: question.split('\n').at(-1),
    measured: measured(JSON.parse(read(study)), 'outstandingSentences(kind=mean)', '10%'),
    command: `npm run -s example -- ${landing}/kept-over-time.mjs`,
  }),
);
write('index.md', landingPage(program));

process.chdir(app);
const { build, serve } = await import(pathToFileURL(join(app, 'node_modules/vitepress/dist/node/index.js')).href);
console.error(`site: ${facts.pieces.length} pieces and methods, ${pages.size} pages of the repository`);
await build(app).catch((error) => fail(`site: ${error.message ?? error}`));
const dist = join(app, 'dist'),
  others = new Map(
    facts.pieces.map((piece) => [`${isMethod(piece) ? 'pieces' : 'methods'}/${piece.name}`, `${pageOf(piece)}.html`]),
  );
others.set('playground', 'playground/index.html');
for (const name of documented) others.set(`api/${name}`, `${apiPage(name)}.html`);
addGuessable(dist, base, others);
const dead = deadAddresses(dist, base);
if (dead.length > 0) fail(`site: every address must lead to a file, but these do not:\n${dead.join('\n')}`);
// VitePress passes its port argument on to listen(), so it may include a host, and prints it
if (!asked.build) await serve({ root: app, port: { port, host: asked.host, toString: () => String(port) } });
