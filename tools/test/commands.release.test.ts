import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inTurn } from '../../packages/model-testing/src/in-turn.ts';
import { documentedCommands, hasFlag, namedBy, simpleCommands, sourceOf } from '../lib/commands.mjs';
import { manifest, onTrial, packageFolders, published } from '../lib/manifests.mjs';
import { root } from '../lib/process.mjs';

const folder = mkdtempSync(join(tmpdir(), 'kv-commands-')),
  clone = join(folder, 'kv'),
  work = join(folder, 'work');
const SMOLLM2 = join(root, '.kv/models/SmolLM2-135M-Instruct.Q4_1.gguf'),
  hasSmolLM2 = existsSync(SMOLLM2);
/** A needle experiment that takes seconds. */
const SHORT = '--prompts 1 --tokens 96 --policies streaming --modes aware';

/** Commands that run with less work, or on what is here: the text that is replaced, and by what. */
const CHEAPER: readonly (readonly [command: RegExp, text: RegExp, by: string])[] = [
  [/^npm start$/, /$/, ` -- ${SHORT}`],
  [/^kv needle(?: --cache .*)?$/, /$/, ` ${SHORT}`],
  [/^(?:echo .*\| )?kv chat(?=$| --policy)/, /kv chat/, 'kv chat --model model.gguf'],
  [/^npm run -s kv -- chat$/, /$/, ' --model packages/model-testing/fixtures/llama/model.gguf'],
  [/^kv choose /, /$/, ' --candidates 2 --minutes 0.2'],
  [/^kv gate /, /(?: notes\.txt)?$/, ' --shortest 24 --longest 40 --tokens 600'],
  [/^kv serve --policy/, /$/, ' --port 0'],
  [/^source /, /$/, ' && complete -p kv'],
  [/^npm run playground$/, /$/, ' -- --port 0'],
  [/^kv bench /, /1024,4096 --turns 5/, '64 --turns 1'],
  [/^kv bench .*psaw/, /4096$/, '64 --turns 1 --decode 4'],
  [/^npm run -s kv -- needle .*model-hybrid/, /--prompts 70/, '--prompts 1'],
  [/^npm run -s study -- papers --row /, /--n 20/, '--n 2'],
  [/^npm run (?:-s )?changeset$/, /$/, ' -- --help'],
  [/^kv .*SmolLM2/, /(?:HuggingFaceTB\/)?SmolLM2-135M-Instruct(?:\.Q4_1\.gguf)?/, SMOLLM2],
  [/calibrate\.mjs MODEL \[/, /MODEL .*/, 'packages/model-embedded ../work/book.txt 64 ../work/statistics'],
];
const changed = (text: string): string =>
  CHEAPER.reduce((to, [command, from, by]) => (command.test(text) ? to.replace(from, by) : to), text);

/** Commands that are not run: the programs, packages, files and flags that they name are looked up. */
const LOOKED_UP: readonly (readonly [command: RegExp, why: string])[] = [
  [/[…[{]|(?:^|[\s/-])[A-Z]{2,}(?:\.\w+)?(?=\s|$)/, 'has a name in place of a value'],
  [
    /^(?:npm test|npm run (?:check|test:)|npm run test|\.ci\/)|npx (?:-y node@24|vitest run packages\/(?!scorers\/mine))/,
    'runs tests',
  ],
  [/^npx tsgo|^pnpm --filter/, 'is a step of npm run check'],
  [/^curl localhost:8080.*keys\.txt/, 'asks the cluster of the example, which npm run test:cluster runs'],
  [
    /^(?:[A-Z_]+=\S+ )?p?npm (?:create|i|install|publish|login|pack)\b|^npx (?:@kv\/cli|kv)\b/,
    'third-party.release.test.ts runs such, on a registry of this machine',
  ],
  [/^npm run -s registry$/, 'third-party.release.test.ts runs it'],
  [/^npm run release/, 'release.release.test.ts runs it'],
  [/^npm run (?:-s )?example|^npx vite\b/, 'examples.test.ts and one-file.browser.test.ts run every example'],
  [/^npm run (?:site|audit|sbom)\b/, 'takes minutes, or asks the registry'],
  [/^npm run bench|^node bench|\.gpu\/run\.sh|build-kernel/, 'takes minutes or hours, some on a GPU'],
  [
    /^kv (?:worker|protocol|eval )|kv -- eval studies/,
    'needs a Redis server, or takes minutes to hours; tests of apps/cli run it',
  ],
  [
    /^npm run -s study -- (?:hard-half|equal-bytes|agents|choose|refit|smollm2|methods(?!\/report$)|papers(?! --(?:list|help|row caote)))|-- papers$/,
    'takes an hour',
  ],
  [/npm run -s kv -- (?:gate|choose) --model \.kv/, 'takes minutes; documented commands with smaller files run'],
  [
    /^node tools\/(?:smollm2|gemma3|tokenizers|sizes|calibrate|detector)/,
    'downloads, builds everything or takes minutes',
  ],
  [/^(?:\S*python3?|\S*pip|tar|git|cd) /, 'is a program of others'],
  [/ --$/, 'is how commands begin'],
  [/^node mine\.mjs$/, 'is a program of the reader'],
];

type Command = ReturnType<typeof documentedCommands>[number];
const commands: readonly Command[] = documentedCommands(),
  reasonOf = ({ text, isBlock }: Command): string | undefined =>
    changed(text) !== text
      ? undefined
      : (LOOKED_UP.find(([command]) => command.test(text))?.[1] ??
        (!isBlock && /^kv\b/.test(text) ? 'is named in a sentence' : undefined));

const env: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(KV_|VITEST|NODE_(ENV|OPTIONS|PATH)$|INIT_CWD$|npm_(?!config_))/.test(name),
    ),
  ),
  PATH: [join(folder, 'bin'), process.env['PATH']].join(delimiter),
  TURBO_CACHE_DIR: join(root, '.turbo/cache'), // the same sources were built for this suite
};
/** Runs a command line; a chat is given one turn. */
const shell = (text: string, cwd: string) =>
  spawnSync('bash', ['-c', `set -o pipefail; ${text}`], {
    cwd,
    env,
    encoding: 'utf8',
    input: text.includes(' chat --model ') ? 'Hello\n' : '',
  });

beforeAll(() => {
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  // a removed file is still in the index
  for (const file of files.split('\0').filter(Boolean))
    if (!onTrial(file) && existsSync(join(root, file)))
      cpSync(join(root, file), join(clone, file), { force: false, errorOnExist: false });
  for (const path of [work, join(folder, 'bin'), join(clone, '.kv')]) mkdirSync(path);
  writeFileSync(join(folder, 'bin/kv'), `#!/bin/sh\nexec node ${join(clone, 'apps/cli/dist/bin.js')} "$@"\n`, {
    mode: 0o755,
  });
  // what a reader is expected to have
  const text = readFileSync(join(root, 'packages/tasks/data/tom-sawyer.txt'), 'utf8');
  writeFileSync(join(work, 'book.txt'), `The secret code is: XK7M9P2Q. ${text.slice(1000, 2600)}`);
  const texts = [1000, 1300, 1600, 1900].map((at) => JSON.stringify({ prompt: text.slice(at, at + 80) }));
  writeFileSync(join(work, 'mine.jsonl'), texts.join('\n'));
  writeFileSync(join(work, 'p.txt'), text.slice(1000, 1060));
  writeFileSync(
    join(work, 'mine.mjs'),
    "import { policy as of } from '@kv/policies';\nexport const policy = of('streaming');\n",
  );
  cpSync(join(root, 'packages/model-testing/fixtures/llama/model.gguf'), join(work, 'model.gguf'));
  if (hasSmolLM2) symlinkSync(dirname(SMOLLM2), join(clone, '.kv/models'));
});
afterAll(() => rmSync(folder, { recursive: true, maxRetries: 5 }));

test('npm start installs, builds and runs the experiment where nothing else was installed', {
  timeout: 900_000,
}, () => {
  const { status, stdout, stderr } = shell(changed('npm start'), clone);
  expect(status, stdout + stderr).toBe(0);
  expect(stdout).toMatch(/^streaming +12\.5%/m);
});

/** Packages that a reader may install: of this workspace, or what some package of it depends on. */
const installable = new Set([
  ...published().map(({ manifest: { name } }) => name as string),
  ...packageFolders().flatMap((path) => {
    const { dependencies, devDependencies, peerDependencies } = manifest(path);
    return Object.keys({ ...dependencies, ...devDependencies, ...peerDependencies });
  }),
]);
const { scripts } = manifest(root) as { scripts: Readonly<Record<string, string>> };
const helps = new Map<string, string>();
/** Returns what a command's `--help` prints; it must end with 0. */
function help(command: string): string {
  const known = helps.get(command);
  if (known !== undefined) return known;
  const { status, stdout, stderr } = shell(`${command} --help`, clone);
  if (status !== 0) throw new Error(`${command} --help ends with ${status}:\n${stdout}${stderr}`);
  helps.set(command, stdout);
  return stdout;
}
const resolved = new Map<string, Promise<unknown>>();
/** Fails unless everything that a program imports is found. */
function resolveImports(file: string): Promise<unknown> {
  const found =
    resolved.get(file) ??
    build({
      entryPoints: [join(root, file)],
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'node',
      conditions: ['@kv/source'],
      external: ['onnxruntime-*', 'node-llama-cpp', '*.node'],
      logLevel: 'silent',
    });
  resolved.set(file, found);
  return found;
}

/** Fails unless what a command names is there. */
async function lookUp(words: readonly string[], from: string): Promise<void> {
  for (const { script, package: name, files = [], flags = [], of = [], helpOf } of namedBy(words, from)) {
    if (script !== undefined) expect(Object.keys(scripts), 'scripts of package.json').toContain(script);
    if (name !== undefined) expect([...installable], 'packages').toContain(name);
    const found = [...files, ...of].filter((file) => existsSync(join(root, file)));
    if (files.length > 0) expect(found, `one of ${files.join(', ')}`).not.toEqual([]);
    for (const file of of.length > 0 ? found : []) if (file.endsWith('.mjs')) await resolveImports(file);
    const text = helpOf === undefined ? found.map((file) => sourceOf(file)).join('\n') : help(helpOf);
    if (helpOf?.startsWith('kv') === true) expect(text).toMatch(new RegExp(`^Usage: ${helpOf}\\b`));
    expect(
      flags.filter((flag) => !hasFlag(text, flag)),
      `flags that ${helpOf ?? of.join(', ')} does not have`,
    ).toEqual([]);
  }
}

describe('named, and not run', () => {
  const found = inTurn(
    commands.filter((one) => reasonOf(one) !== undefined),
    2,
  );
  test.each(found.map((one) => [one.text, one.at[0]!, reasonOf(one), one] as const))(
    '%s (%s) %s',
    async (text, _, __, { folder: from }) => {
      for (const words of simpleCommands(text)) await lookUp(words, from);
    },
  );
});

/** Runs a server until it says where it listens, asks it, and ends it. */
async function ask(text: string, cwd: string, path: string): Promise<number> {
  const child = spawn('bash', ['-c', `exec ${text}`], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  try {
    let said = '';
    const address = await new Promise<string>((resolve, reject) => {
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (data) => {
          said += String(data).replace(/\u001b\[\d*m/g, '');
          const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(said) ?? [];
          if (found !== undefined) resolve(found);
        });
      child.on('close', () => reject(new Error(said)));
    });
    return (await fetch(`${address}${path}`)).status;
  } finally {
    process.kill(-child.pid!, 'SIGTERM');
  }
}

/** Commands of kv by themselves: none reads what another one wrote. */
const byItself = ({ text }: Command): boolean => /^(?:kv|echo '|source) /.test(text) && !/facts|gate/.test(text);

describe('run', () => {
  const found = commands.filter((one) => one.text !== 'npm start' && reasonOf(one) === undefined),
    chosen = new Set(inTurn(found.filter(byItself), 2));
  for (const { text, at } of found.filter((one) => !byItself(one) || chosen.has(one))) {
    const ran = changed(text),
      absent = ran.includes('SmolLM2') && !hasSmolLM2;
    test.skipIf(absent)(
      `${text} (${at.join(', ')})${ran === text ? '' : `, as ${ran.replace(root, '.')}`}${absent ? ': SmolLM2 is not here; node tools/smollm2.mjs fetches it' : ''}`,
      async () => {
        const cwd = /^(?:kv|echo|printf|source) /.test(text) ? work : clone;
        if (/^kv serve|playground$/.test(text)) {
          expect(await ask(ran, cwd, text.startsWith('kv') ? '/health' : '/')).toBe(200);
          return;
        }
        const { status, stdout, stderr } = shell(ran, cwd);
        expect(status, stdout + stderr).toBe(0);
      },
    );
  }
});
