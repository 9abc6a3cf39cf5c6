import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import * as ts from 'typescript';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { root } from '../lib/process.mjs';
import { versionOf } from '../lib/registry.mjs';

const exec = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'kv-third-'));
const env: NodeJS.ProcessEnv = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name))),
  npm_config_audit: 'false',
  npm_config_fund: 'false',
};
let registry: ChildProcess;

/** Runs a command; returns its stdout. */
const run = async (cwd: string, command: string, ...args: string[]): Promise<string> => {
  try {
    return (await exec(command, args, { cwd, env, maxBuffer: 2 ** 26 })).stdout;
  } catch (cause) {
    const { stdout = '', stderr = '' } = cause as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(' ')} failed in ${cwd}:\n${stdout}\n${stderr}`);
  }
};
/** What an editor shows of the option where this text stands in a file. */
function hover(cwd: string, name: string, text: string): string {
  const file = join(cwd, name),
    source = readFileSync(file, 'utf8'),
    service = ts.createLanguageService({
      getScriptFileNames: () => [file],
      getScriptVersion: () => '1',
      getScriptSnapshot: (path) => {
        const read = ts.sys.readFile(path);
        return read === undefined ? undefined : ts.ScriptSnapshot.fromString(read);
      },
      getCurrentDirectory: () => cwd,
      getCompilationSettings: () => ({
        module: ts.ModuleKind.Node16,
        moduleResolution: ts.ModuleResolutionKind.Node16,
        target: ts.ScriptTarget.ES2022,
        strict: true,
        types: [],
      }),
      getDefaultLibFileName: (options) => ts.getDefaultLibFilePath(options),
      fileExists: ts.sys.fileExists,
      readFile: ts.sys.readFile,
      directoryExists: ts.sys.directoryExists,
      getDirectories: ts.sys.getDirectories,
    });
  return ts.displayPartsToString(service.getQuickInfoAtPosition(file, source.indexOf(text) + 1)?.documentation);
}

const folderOf = (name: string, files: Readonly<Record<string, string>> = {}): string => {
  const path = join(folder, name);
  for (const [file, text] of Object.entries({ 'package.json': '{ "private": true, "type": "module" }', ...files })) {
    mkdirSync(dirname(join(path, file)), { recursive: true });
    writeFileSync(join(path, file), text);
  }
  return path;
};

/** Starts `npm run registry`, and the shell that it names. */
beforeAll(async () => {
  registry = spawn(process.execPath, ['tools/registry-here.mjs'], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  await new Promise<void>((ready, failed) => {
    for (const stream of [registry.stdout, registry.stderr])
      stream?.on('data', (data) => {
        said += String(data);
        const [, settings] = /^ {2}export NPM_CONFIG_USERCONFIG=(.+)$/m.exec(said) ?? [];
        if (settings === undefined || !said.includes('npm create')) return;
        env.NPM_CONFIG_USERCONFIG = settings;
        ready();
      });
    registry.once('exit', () => failed(new Error(said)));
  });
}, 900_000);
afterAll(async () => {
  if (registry.exitCode === null) registry.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

describe('a package by somebody else', () => {
  test('is made by npm create, passes its tests and is published', { timeout: 600_000 }, async () => {
    const made = folderOf('made');
    await run(made, 'npm', 'create', '--yes', '@kv/piece', '@me/kv-long', '--', '--kind', 'policy');
    await run(made, 'npm', 'create', '--yes', '@kv/piece', 'kv-far');
    const tested = async (name: string, top: string): Promise<void> => {
      const own = join(made, name);
      await run(own, 'npm', 'install');
      await run(own, 'npm', 'publish');
      rmSync(join(own, 'dist'), { recursive: true });
      await run(own, 'npm', 'pack'); // which builds, as publishing does
      const [packed] = JSON.parse(await run(own, 'npm', 'pack', '--dry-run', '--json', '--ignore-scripts')) as [
        { name: string; files: { path: string }[] },
      ];
      expect(packed.name).toBe(top);
      expect(packed.files.map(({ path }) => path)).toEqual(
        expect.arrayContaining(['README.md', 'CHANGELOG.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts']),
      );
      const manifest = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as { keywords: string[] };
      expect(manifest.keywords).toContain('kv-piece');
    };
    await tested('kv-long', '@me/kv-long');
    // both need the same packages, which are fetched once
    const modules = (name: string): string => join(made, name, 'node_modules');
    cpSync(modules('kv-long'), modules('kv-far'), { recursive: true, verbatimSymlinks: true });
    await tested('kv-far', 'kv-far');
  });

  test('is installed, listed by kv pieces, and nested in the text of a policy', { timeout: 600_000 }, async () => {
    const cwd = folderOf('user');
    await run(cwd, 'npm', 'install', '@kv/cli', '@me/kv-long', 'kv-far');
    const pieces = await run(cwd, 'npx', 'kv', 'pieces');
    for (const [name, from] of [
      ['long', '@me/kv-long'],
      ['longNorm', '@me/kv-long'],
      ['far', 'kv-far'],
    ] as const)
      expect(pieces.replace(/\s+/g, ' ')).toMatch(new RegExp(`\\b${name} \\w+ [^()]*\\(${from}@0\\.1\\.0\\)`));
    const kept = async (policy: string): Promise<{ policy: string; kept: number[][][] }> =>
      JSON.parse(
        await run(
          cwd,
          join(cwd, 'node_modules/.bin/kv'),
          'run',
          '--prompt',
          'The wide river was wide.',
          '--policy',
          policy,
          '--budget',
          '3',
          '--max-new-tokens',
          '1',
          '--json',
        ),
      ) as { policy: string; kept: number[][][] };
    for (const policy of ['long', 'far', 'weighted(0.5*far,1*recency) | topK', 'sum(longNorm,knorm) | longTop']) {
      const ran = await kept(policy);
      expect(
        ran.kept.flat().every((slots) => slots.length === 3),
        policy,
      ).toBe(true);
    }
    expect((await kept('long')).kept).toEqual((await kept('far | topK')).kept);
  });

  test('has types for node16 and bundlers, strict and without skipLibCheck, and Vite bundles it', {
    timeout: 600_000,
  }, async () => {
    const cwd = folderOf('typed', {
      'app.ts': `import { compose } from '@kv/core';
import { apply } from '@kv/cpu';
import { long } from '@me/kv-long';
import { far } from 'kv-far';
import { topK } from '@kv/selectors-top-k';
const values = { data: [3, 4, 0, 0, 1, 0], shape: [1, 3, 2] };
const same: readonly (readonly number[])[] | undefined = apply(compose(far(), topK()), { values, budget: 2 }).kept;
document.title = JSON.stringify([same, apply(long(), { values, budget: 2 }).kept]);
// @ts-expect-error it has no such option
far({ windw: 3 });
`,
      'models.ts': `import { generate, loadModel } from '@kv/models';
const { text }: { text: string } = await generate(await loadModel('embedded'), { prompt: 'a', budget: '50%', policy: 'snapkv' });
export { text };
`,
      'index.html': '<!doctype html><title>x</title><script type="module" src="/app.ts"></script>',
    });
    const vite = `vite@${versionOf('vite')}`;
    await run(
      cwd,
      'npm',
      'install',
      '@kv/core',
      '@kv/cpu',
      '@kv/models',
      '@kv/selectors-top-k',
      '@me/kv-long',
      'kv-far',
      vite,
    );
    const tsc = resolve(import.meta.dirname, '../../node_modules/.bin/tsc');
    for (const [module, moduleResolution] of [
      ['node16', 'node16'], // as nodenext
      ['esnext', 'bundler'],
    ]) {
      const compilerOptions = { module, moduleResolution, strict: true, skipLibCheck: false, noEmit: true, types: [] };
      const lib = ['es2023', 'dom'];
      writeFileSync(
        join(cwd, 'tsconfig.json'),
        JSON.stringify({
          compilerOptions: { ...compilerOptions, target: 'es2022', lib },
          files: ['app.ts', 'models.ts'],
        }),
      );
      await run(cwd, tsc, '-p', '.');
    }
    expect(hover(cwd, 'models.ts', "budget: '50%'")).toMatch(
      /^What evictions leave: slots per layer and KV head, a share/,
    );
    expect(hover(cwd, 'app.ts', 'windw: 3')).toBe(''); // there is no such option
    expect(hover(cwd, 'models.ts', "policy: 'snapkv'")).toMatch(/^What keeps the cache at its budget/);
    await run(cwd, 'npx', 'vite', 'build');
    const [script = ''] = readdirSync(join(cwd, 'dist/assets')).filter((name) => name.endsWith('.js'));
    const bundle = join(cwd, 'dist/assets', script);
    const { stdout } = await exec(process.execPath, [
      '--input-type=module',
      '--eval',
      `globalThis.document = { createElement: () => ({ relList: { supports: () => true } }), title: '' };
globalThis.window = globalThis;
try { await import(${JSON.stringify(bundle)}); } catch (error) { console.error(error.message); }
console.log(document.title);`,
    ]);
    expect(stdout.trim()).toBe('[[[0,2]],[[0,2]]]');
  });

  test('was served until Ctrl-C, and nothing of it is left', async () => {
    const settings = env.NPM_CONFIG_USERCONFIG ?? '';
    expect(existsSync(settings)).toBe(true);
    const ended = once(registry, 'exit');
    registry.kill('SIGINT');
    expect(await ended).toEqual([0, null]);
    expect(existsSync(dirname(settings))).toBe(false);
  });
});
