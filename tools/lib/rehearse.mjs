import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { browse, chromium } from './browse.mjs';
import { assemblePage } from './page.mjs';
import { fail, root, run } from './process.mjs';
import { startRegistry } from './registry.mjs';
import { dirty, repository } from './release.mjs';

/** What a release runs in a clone, as .github/workflows/release.yml does: without the right to publish, then with it. */
export const COMMANDS = {
  audit: 'node tools/audit.mjs',
  pack: 'npm run release -- --pack tarballs',
  bills: 'npm run sbom -- bills',
  publish: 'node tools/publish.mjs tarballs',
};
/** Versions of Node that what was published must run on. */
const NODES = [20, 22, 24];

const minutes = (ms) => `${Math.max(1, Math.round(ms / 60_000))} min`;
const says = (sentence) => console.error(`release: ${sentence}`);

/**
 * Releases this commit to a registry of this machine, from a clone of its own, and tries what was published. Nothing
 * outside the clone's folder changes.
 * @returns {Promise<number>} the exit code
 */
export async function rehearse() {
  if (!existsSync(chromium))
    fail(`release: a rehearsal ends in a browser, but there is no Chromium at ${chromium}: set KV_CHROMIUM`, 2);
  if (dirty((await run('git', ['status', '--porcelain'])).output) !== undefined)
    says('what is not committed is not rehearsed');
  const started = performance.now(),
    folder = mkdtempSync(join(tmpdir(), 'kv-rehearsal-')),
    stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort());
  const registry = await startRegistry(join(folder, 'registry'), { others: true });
  let failed;
  try {
    const done = await steps({ folder, registry, step: stepper(stop.signal) });
    console.log(`\nThe first time, by hand (docs/releasing.md):\n${byHand()}\n`);
    console.log(`release: rehearsed in ${minutes(performance.now() - started)}: ${done}; nothing left this machine`);
  } catch (error) {
    failed = error.message;
  } finally {
    await registry.stop();
  }
  if (failed === undefined || stop.signal.aborted) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  if (failed !== undefined)
    says(
      stop.signal.aborted
        ? 'the rehearsal was stopped, and nothing of it is left'
        : `${failed}\nrelease: the rehearsal failed, see above; its clone stays in ${folder}`,
    );
  return failed === undefined ? 0 : 1;
}

/** Returns the first steps of docs/releasing.md that no command can take. */
export function byHand() {
  const text = readFileSync(join(root, 'docs/releasing.md'), 'utf8'),
    [, list] = /^## The first time, by hand\n+(?:.*\n\n)?((?:\d+\. .*\n)+)/m.exec(text) ?? [];
  if (list === undefined) throw new Error("docs/releasing.md must have a list under '## The first time, by hand'");
  return list.trimEnd();
}

/** Returns a function that runs a command line and returns its output. */
function stepper(signal) {
  return async (what, command, cwd, env, { may = [0] } = {}) => {
    const started = performance.now();
    const { code, output } = await run('bash', ['-c', command], { cwd, env, signal });
    if (!may.includes(code)) throw new Error(`'${command}' ended with ${code}:\n${output.trimEnd()}`);
    if (what !== '') says(`${what} (${Math.round((performance.now() - started) / 1000)} s)`);
    return output;
  };
}

async function steps({ folder, registry, step }) {
  const clone = join(folder, 'clone'),
    settings = (name, text) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
  // what installs, builds and tests has no token
  const reading = {
    ...registry.env,
    NPM_CONFIG_USERCONFIG: settings('reader', `registry=${registry.address}/\n`),
    KV_REPOSITORY: repository() ?? 'git+https://host.invalid/kv.git',
    ACTIONS_ID_TOKEN_REQUEST_URL: '',
  };
  const publishing = { ...reading, NPM_CONFIG_USERCONFIG: settings('publisher', registry.settings) };

  await step(
    'a clone of this commit',
    `git clone --quiet --no-local --depth 1 file://${root} ${clone}`,
    folder,
    reading,
  );
  await step('', 'git config user.name rehearsal && git config user.email rehearsal@host.invalid', clone, reading);
  const audited = await step('advisories', COMMANDS.audit, clone, process.env, { may: [0, 2] });
  if (audited.includes('did not answer')) says(audited.trim());
  const before = (await step('', 'git rev-parse HEAD', clone, reading)).trim();
  await step('versions, changelogs, builds, checks, tarballs', COMMANDS.pack, clone, reading);
  const changes = await step('', `git diff --stat ${before} HEAD -- '*CHANGELOG.md' | tail -1`, clone, reading);
  says(`changelogs: ${changes.trim() || 'none changed'}`);
  await step('bills of materials', COMMANDS.bills, clone, reading);
  await step('the site', 'npm run site -- --build', clone, reading);
  const file = gzipSync(readFileSync(join(clone, 'packages/page/dist/kv.min.js')), { level: 9 }).length;
  says(`kv.min.js, ${Math.round(file / 1000)} KB by gzip`);
  await step('publish, with the token, and tags', COMMANDS.publish, clone, publishing);
  const names = await provable(join(clone, 'tarballs'), registry, step, reading);
  says(
    `provenance: the registry has ${names.length} tarballs as they were packed, each with the place of its sources; a statement about them takes the identity of GitHub's CI to sign`,
  );
  const first = await inNodes({ folder, step, env: reading });
  says(first);
  await inBrowser({ folder, clone, step, env: reading });
  return `${names.length} packages at their next versions, installed and run in Node ${NODES.join(', ')} and in Chromium`;
}

/**
 * Compares each tarball with what the registry has of it, by the checksum that a statement of provenance would name.
 * @returns {Promise<readonly string[]>} their names and versions
 */
async function provable(folder, { address }, step, env) {
  const names = [];
  for (const tarball of readdirSync(folder).filter((name) => name.endsWith('.tgz'))) {
    const packed = await step('', `tar -xzOf ${tarball} package/package.json`, folder, env),
      { name, version, repository: from } = JSON.parse(packed),
      integrity = `sha512-${createHash('sha512')
        .update(readFileSync(join(folder, tarball)))
        .digest('base64')}`;
    const answer = await fetch(`${address}/${name.replace('/', '%2f')}`),
      there = (await answer.json()).versions?.[version]?.dist.integrity;
    if (there !== integrity)
      throw new Error(`${name}@${version} must be in the registry as ${integrity}, got ${there}`);
    if (!from?.url || !from.directory)
      throw new Error(`${name} must say where its sources are, got ${JSON.stringify(from)}`);
    names.push(`${name}@${version}`);
  }
  return names;
}

/** Installs what README's first program imports into an empty folder, and runs it, in each Node. */
async function inNodes({ folder, step, env }) {
  const text = readFileSync(join(root, 'README.md'), 'utf8'),
    [, program, said] = /^```js\n(.*?)^```\n\n^```text\n(.*?)^```/ms.exec(text) ?? [],
    packages = [...new Set([...program.matchAll(/ from '(@kv\/[^']+)'/g)].map(([, name]) => name))];
  for (const version of NODES) {
    const at = join(folder, `node-${version}`),
      home = join(root, `.kv/node-${version}`),
      bin = join(home, `node_modules/node-${process.platform}-${process.arch}/bin`);
    if (!existsSync(bin))
      await step(
        '',
        `npm install --silent --no-save --prefix ${home} node-${process.platform}-${process.arch}@${version}`,
        folder,
        env,
      );
    const inNode = { ...env, PATH: [bin, env.PATH].join(delimiter) },
      is = await step('', 'node --version', folder, inNode);
    if (!is.startsWith(`v${version}.`)) throw new Error(`expected Node ${version}, got ${is}`);
    mkdirSync(at);
    writeFileSync(join(at, 'package.json'), '{ "private": true, "type": "module" }\n');
    writeFileSync(join(at, 'first.js'), program);
    await step(
      `Node ${version}: npm install ${packages.join(' ')} @kv/cli`,
      `npm install ${packages.join(' ')} @kv/cli`,
      at,
      inNode,
    );
    const printed = await step(`Node ${version}: the first program`, 'node first.js', at, inNode);
    if (!printed.endsWith(said))
      throw new Error(`the first program in Node ${version} must print\n${said}got\n${printed}`);
    await step(`Node ${version}: kv pieces`, 'npx kv pieces snapkv', at, inNode);
  }
  return `the first program prints what README says in Node ${NODES.join(', ')}`;
}

/** Installs what a page needs, opens examples/page.html, a created app and the site in Chromium. */
async function inBrowser({ folder, clone, step, env }) {
  const [user, pages] = [join(folder, 'user'), join(folder, 'pages')];
  for (const path of [user, pages]) mkdirSync(path);
  writeFileSync(join(user, 'package.json'), '{ "private": true }\n');
  await step('npm install @kv/page', 'npm install @kv/page @kv/model-embedded', user, env);
  assemblePage(pages, join(root, 'examples/page.html'), join(user, 'node_modules/@kv'));
  await step(
    'npm create @kv/app',
    'npm create --yes @kv/app my-chat && cd my-chat && npm install && npm run build',
    user,
    env,
  );
  cpSync(join(user, 'my-chat/dist'), join(pages, 'app'), { recursive: true });
  await inPage(pages, async (page, address) => {
    await page.goto(`${address}page.html`);
    await page.getByText('kept by streaming').waitFor();
    const said = await page.textContent('pre');
    if (!/^XK7M9P2Q +64 kept by snapkv/m.test(said)) throw new Error(`page.html must answer XK7M9P2Q, got\n${said}`);
    await page.goto(`${address}app/`);
    await page.getByText('is not in this browser yet').waitFor();
  });
  says('page.html answers in Chromium, and the created app asks for its model');
  await inPage(join(clone, 'apps/docs/dist'), async (page, address) => {
    for (const path of ['', 'playground/index.html']) {
      const response = await page.goto(`${address}${path}`);
      if (!response.ok() || (await page.locator('h1').count()) === 0)
        throw new Error(`the site must have a page with a heading at /${path}, got HTTP status ${response.status()}`);
    }
  });
  says('the site and its playground open in Chromium');
}

/** Serves a folder, and gives `use` a page of Chromium and the folder's address. */
async function inPage(folder, use) {
  const { address, browser, close } = await browse(folder);
  try {
    await use(await browser.newPage(), address);
  } finally {
    await close();
  }
}
