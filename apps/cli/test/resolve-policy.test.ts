import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { policy, policyNames } from '@kv/policies';
import { beforeAll, describe, expect, it } from 'vitest';
import { policyOfFile, resolvePolicy } from '../src/policy/resolve-policy.ts';
import { folder, kv } from './terminal.ts';

const here = import.meta.dirname;
/** A package of pieces that knows nothing of @kv/core: the protocol is plain objects and data. */
const THIRD_PARTY = `
const number = (fallback) => ({ default: fallback, says: 'A number.', form: { sort: 'number', want: 'a number', least: -Infinity, most: Infinity } });
const piece = (from, to, name, options, inside = []) => {
  const said = [...inside, ...Object.entries(options).map(([key, value]) => key + '=' + value)];
  const label = said.length === 0 ? name : name + '(' + said.join(',') + ')';
  return { protocol: 1, from, to, name, label, atoms: [{ at: 'event', kind: to === 'same' ? 'allocator' : 'scorer', name, label, needs: [], reach: 'layer', needsFullPrompt: false, minSlots: () => 0, run: (cells) => cells.map((cell) => cell.draft) }] };
};
const declared = (name, kind, takes, options, make) => Object.assign(make, { description: { protocol: 1, name, kind, source: 'theirs', says: 'Theirs.', takes, options, signals: [] } });
const labels = (scorers) => scorers.map((s) => s.label);
export const bright = declared('acme.bright', 'scorer', 'nothing', { scale: number(2) }, ({ scale } = {}) => piece(['start'], 'scores', 'acme.bright', scale === undefined ? {} : { scale }));
export const blend = declared('acme.blend', 'scorer', 'scorers', {}, (...s) => piece(['start'], 'scores', 'acme.blend', {}, labels(s)));
export const reserve = declared('acme.reserve', 'allocator', 'scorer', { slots: number(2) }, (by, { slots } = {}) => piece(['scores', 'weights'], 'same', 'acme.reserve', slots === undefined ? {} : { slots }, labels([by])));
export const broken = declared('acme.broken', 'scorer', 'nothing', { x: number(0) }, ({ x } = {}) => { if (x !== undefined) throw new RangeError('x is out'); return piece(['start'], 'scores', 'acme.broken', {}); });
export const shared = declared('shared', 'scorer', 'nothing', {}, () => piece(['start'], 'scores', 'shared', {}));
export function trap() { throw new Error('an export was called'); }
`;
let cwd: string;
beforeAll(() => {
  cwd = folder();
  const pack = (name: string, source: string, kv: object = { pieces: true }): void => {
    const at = join(cwd, 'node_modules', ...name.split('/'));
    mkdirSync(at, { recursive: true });
    const manifest = {
      name,
      version: '1.2.3',
      type: 'module',
      kv,
      exports: { '.': './index.js', './pieces': './index.js' },
    };
    writeFileSync(join(at, 'package.json'), JSON.stringify(manifest));
    writeFileSync(join(at, 'index.js'), source);
  };
  pack('@acme/kv-bright', THIRD_PARTY);
  pack(
    'other-shared',
    THIRD_PARTY.split('\n')
      .filter((line) => !/^export (const (bright|blend|reserve|broken)|function)/.test(line))
      .join('\n'),
    { pieces: './pieces' },
  );
  pack('fails', "throw new Error('not here');");
  pack('no-pieces', "throw new Error('was imported');", {});
  writeFileSync(join(cwd, 'a, (b).mjs'), "import { bright } from '@acme/kv-bright';\nexport const policy = bright;");
  writeFileSync(
    join(cwd, 'plain.mjs'),
    "import { bright } from '@acme/kv-bright';\nexport const policy = (options) => bright(options);",
  );
});

describe('resolvePolicy', () => {
  it('makes every policy of the catalogue under its name, and reads back the label that its report prints', async () => {
    for (const name of policyNames) {
      const { label } = policy(name);
      expect((await resolvePolicy(name, { cwd: here })).label).toBe(label);
      if (label !== '') expect((await resolvePolicy(label, { cwd: here })).label).toBe(label);
    }
  });
  it.each([
    ['acme.bright | topK', 'acme.bright ∘ topK'],
    ['acme.bright', 'acme.bright ∘ topK'],
    ['acme.bright(scale=1e3) ∘ topK', 'acme.bright(scale=1000) ∘ topK'],
    ['@acme/kv-bright:acme.bright ∘ topK', 'acme.bright ∘ topK'],
    [
      'weighted(0.5*acme.bright(scale=1),-2*recency) ∘ zScore ∘ topK',
      'weighted(0.5*acme.bright(scale=1),-2*recency) ∘ zScore ∘ topK',
    ],
    [
      'acme.blend(knorm | softmax,sum(acme.bright,tova)) | topK',
      'acme.blend(knorm ∘ softmax,sum(acme.bright,tova)) ∘ topK',
    ],
    ['sum(acme.bright,knorm) ∘ topK', 'sum(acme.bright,knorm) ∘ topK'],
    [
      'knorm ∘ acme.reserve(max(acme.bright,tova),slots=3) ∘ topK',
      'knorm ∘ acme.reserve(max(acme.bright,tova),slots=3) ∘ topK',
    ],
    ['view(acme.bright ∘ topK,budget=16)', 'view(acme.bright ∘ topK,budget=16)'],
    ['"./a, (b).mjs"(scale=4) ∘ topK', 'acme.bright(scale=4) ∘ topK'],
    ['./plain.mjs(scale=4)', 'acme.bright(scale=4) ∘ topK'],
    ['sum(knorm,"./a, (b).mjs") ∘ topK', 'sum(knorm,acme.bright) ∘ topK'],
    ['other-shared:shared', 'shared ∘ topK'],
  ])('%s has third-party pieces', async (text, label) => {
    expect((await resolvePolicy(text, { cwd })).label).toBe(label);
    if (label !== 'shared ∘ topK') expect((await resolvePolicy(label, { cwd })).label).toBe(label);
  });
  it('kv pieces lists them with their package, calls nothing, and says what could not be imported', async () => {
    const { stdout, stderr, code } = await kv(['pieces'], { cwd });
    expect(code).toBe(0);
    expect(stdout).toMatch(/acme\.bright +scorer +Theirs\. \(@acme\/kv-bright@1\.2\.3\)/);
    expect(stdout).toContain('facilityLocation');
    expect(stderr).toBe('fails could not be imported: not here\n');
    const all = JSON.parse((await kv(['pieces', '--json'], { cwd })).stdout) as {
      name: string;
      package: string;
      options: object;
    }[];
    expect(all.filter(({ name }) => name === 'shared').map((one) => one.package)).toEqual([
      '@acme/kv-bright@1.2.3',
      'other-shared@1.2.3',
    ]);
    expect(all.find(({ name }) => name === 'snapkv')?.options).toEqual({ window: 64, kernel: 5, pooling: 'mean' });
    expect((await kv(['pieces', 'snapkv'], { cwd })).stdout).toContain('Observation window');
  });
  it.each([
    [undefined, 80],
    [40, 40],
    [80, 80],
    [140, 140],
  ])('kv pieces on a terminal of %s columns has lines of at most %i', async (columns, most) => {
    const at = { cwd, ...(columns !== undefined && { columns }) };
    for (const args of [['pieces'], ['pieces', 'sponsorship'], ['pieces', 'acme.bright']]) {
      const { stdout } = await kv(args, at);
      const lines = stdout.split('\n');
      expect(Math.max(...lines.map((line) => [...line].length))).toBeLessThanOrEqual(most);
      if (args.length === 1) expect(Math.max(...lines.map((line) => [...line].length))).toBeGreaterThan(most / 2);
    }
    const words = (text: string): readonly string[] => text.split(/\s+/);
    expect(words((await kv(['pieces'], at)).stdout)).toEqual(
      words((await kv(['pieces'], { cwd, columns: 400 })).stdout),
    );
  });
  it('a file names the catalogue alone: nothing is imported for its label', () => {
    expect(policyOfFile('snapkv(window=64,kernel=5) ∘ topK').label).toBe('snapkv ∘ topK');
    for (const label of ['"./a, (b).mjs" ∘ topK', 'acme.bright ∘ topK', 'file:///etc/x.mjs'])
      expect(() => policyOfFile(label)).toThrow('policy: expected the name of a method or piece');
  });
  it.each([
    ['nope', /^policy: expected the name of a method or piece, got 'nope'/],
    ['tvoa', /\(did you mean tova\?\)/],
    ['snapvk', /^policy: expected the name of a method or piece \(did you mean snapkv/],
    ['snapkv(windw=3)', /^snapkv: has no option 'windw' \(did you mean window\?\)$/],
    ['snapkv(window=wide)', /^snapkv: window must be a positive whole number of queries, got 'wide'$/],
    ['snapkv(window="16")', /^snapkv: window must be a positive whole number of queries, got '16'$/],
    ['snapkv(window=-1)', /^snapkv: window must be a positive whole number of queries, got -1$/],
    ['snapkv(window=1,window=2)', /^snapkv: expected every option once, got 'window' twice$/],
    ['snapkv(16)', /^snapkv: expected options window, kernel, pooling as option=value, got '16'$/],
    ['full(x=1)', /^full: has no option 'x': it has none$/],
    ['knorm ∘ tpK', /^policy: expected the name of a method or piece \(did you mean topK/],
    ['weighted(1*knrom) ∘ topK', /^policy: expected the name of a method or piece \(did you mean knorm/],
    ['sum(knorm,recncy) ∘ topK', /^policy: expected the name of a method or piece \(did you mean recency/],
    ['topK', /^policy: 'topK' starts from .*, expected a scorer such as knorm at its start$/],
    ['topK ∘ topK', /^compose: 'topK' needs scores, but 'topK' before it leaves kept slots$/],
    ['knorm ∘ chunks', /^policy: 'knorm ∘ chunks' leaves no kept slots, expected a selector such as topK at its end$/],
    ['constructor', /^policy: expected the name of a method or piece/],
    ['__proto__', /^policy: expected the name of a method or piece/],
    [
      'shared',
      /^policy: 'shared' is in more than one package: expected '@acme\/kv-bright:shared' or 'other-shared:shared', got 'shared'$/,
    ],
    ['no-one:shared', /^policy: expected the name of a method or piece/],
    ['regex', /^policy: expected a piece, got the detector 'regex'$/],
    ['./nowhere.mjs', /^\.\/nowhere\.mjs: expected a file, got nothing at this path$/],
    ['sum(./nowhere.mjs) ∘ topK', /^\.\/nowhere\.mjs: expected a file, got nothing at this path$/],
    ['@kv/models', /^@kv\/models: expected a module that exports 'policy' .*, got the exports /],
    ['acme.broken(x=1) ∘ topK', /^acme\.broken: .*x is out$/],
    ['acme.reserve ∘ topK', /^acme\.reserve: expected a scorer first, got nothing$/],
    ['"./a, (b).mjs ∘ topK', /^policy: expected a closing quote, got /],
  ])('refuses %s in one sentence', async (text, sentence) => {
    const error: unknown = await resolvePolicy(text, { cwd }).catch((cause: unknown) => cause);
    expect(KvError.is(error), String(error)).toBe(true);
    expect((error as Error).message).toMatch(sentence);
  });
});
