import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { policies } from '@kv/policies';
import { beforeAll, describe, expect, it } from 'vitest';
import { resolvePolicy } from '../src/policy/resolve-policy.ts';
import { folder, kv } from './terminal.ts';

const here = import.meta.dirname;
/** A package of pieces that knows nothing of @kv/core: the protocol is plain objects. */
const THIRD_PARTY = `
const piece = (from, to, name, options, inner = []) => {
  const said = [...inner, ...Object.entries(options).map(([key, value]) => key + '=' + (typeof value === 'string' && /[()=,"]/.test(value) ? JSON.stringify(value) : value))];
  const label = said.length === 0 ? name : name + '(' + said.join(',') + ')';
  return { protocol: 1, from, to, name, label, atoms: [{ at: 'event', kind: to === 'same' ? 'allocator' : 'scorer', name, label, needs: [], reach: 'layer', whole: false, floor: () => 0, run: (cells) => cells.map((cell) => cell.draft) }] };
};
const labels = (scorers) => scorers.map((s) => { if (s.protocol !== 1) throw new TypeError('a scorer'); return s.label; });
export const bright = ({ scale = 2, mark = 'none', ...more } = {}) => piece(['start'], 'scores', 'bright', { scale, mark, ...more });
export const blend = (a, b, { by = 0.5 } = {}) => piece(['start'], 'scores', 'blend', { by }, labels([a, b]));
export const mix = (...terms) => piece(['start'], 'scores', 'mix', {}, terms.map(([w, s]) => w + '*' + labels([s])));
export const reserve = (by, { slots = 2 } = {}) => piece(['scores', 'weights'], 'same', 'reserve', { slots, by: new String(labels([by])[0]) });
export const broken = ({ x } = {}) => { if (x !== undefined) throw new RangeError('x is out'); return piece(['start'], 'scores', 'broken', {}); };
`;
let cwd: string;
beforeAll(() => {
  cwd = folder();
  const pack = join(cwd, 'node_modules', 'kv-third-party');
  mkdirSync(pack, { recursive: true });
  writeFileSync(
    join(pack, 'package.json'),
    JSON.stringify({
      name: 'kv-third-party',
      version: '1.2.3',
      type: 'module',
      keywords: ['kv-piece'],
      exports: { '.': './index.js' },
    }),
  );
  writeFileSync(join(pack, 'index.js'), THIRD_PARTY);
  writeFileSync(
    join(cwd, 'again.mjs'),
    "export const policy = () => { throw Object.assign(new Error('again: asks for itself'), { name: 'KvError', unknown: { sort: 'policy', at: 'policy', name: './again.mjs', known: [] } }); };",
  );
  writeFileSync(join(cwd, 'a, (b).mjs'), `${THIRD_PARTY}\nexport const policy = bright;`);
});

describe('resolvePolicy', () => {
  it('makes every policy of the catalogue under its name, and reads back the label that its report prints', async () => {
    for (const [id, { make }] of Object.entries(policies)) {
      expect((await resolvePolicy(id, { cwd: here })).label).toBe(make().label);
      expect((await resolvePolicy(make().label, { cwd: here })).label).toBe(make().label);
    }
  });
  it('gives a seed to what draws at random, unless one is given', async () => {
    expect((await resolvePolicy('random', { cwd: here, seed: 7 })).label).toContain('seed=7');
    expect((await resolvePolicy('random()', { cwd: here, seed: 7 })).label).toContain('seed=7');
    expect((await resolvePolicy('random(seed=3)', { cwd: here, seed: 7 })).label).toContain('seed=3');
    expect((await resolvePolicy('knorm', { cwd: here, seed: 7 })).label).toBe('knorm ∘ topK');
  });
  it.each([
    ['bright ∘ topK', 'bright(scale=2,mark=none) ∘ topK'],
    ['bright(scale=3,mark=12) ∘ topK', 'bright(scale=3,mark=12) ∘ topK'],
    ['bright(mark="a, (b)=\\"c\\"") ∘ topK', 'bright(scale=2,mark="a, (b)=\\"c\\"") ∘ topK'],
    ['bright(on=true,far=1e3,word=x y) ∘ topK', 'bright(scale=2,mark=none,on=true,far=1000,word=x y) ∘ topK'],
    [
      'weighted(0.5*bright(scale=1),-2*recency) ∘ zScore ∘ topK',
      'weighted(0.5*bright(scale=1,mark=none),-2*recency) ∘ zScore ∘ topK',
    ],
    [
      'blend(knorm ∘ softmax,sum(bright,tova)) ∘ topK',
      'blend(knorm ∘ softmax,sum(bright(scale=2,mark=none),tova),by=0.5) ∘ topK',
    ],
    ['mix(2*knorm,0.25*bright) ∘ topK', 'mix(2*knorm,0.25*bright(scale=2,mark=none)) ∘ topK'],
    [
      'knorm ∘ reserve(slots=3,by=max(bright,tova)) ∘ topK',
      'knorm ∘ reserve(slots=3,by=max(bright(scale=2,mark=none),tova)) ∘ topK',
    ],
    ['view(of=bright ∘ topK,budget=16)', 'view(budget=16,rows=query,of=bright(scale=2,mark=none) ∘ topK)'],
    ['"./a, (b).mjs"(scale=4) ∘ topK', 'bright(scale=4,mark=none) ∘ topK'],
    ['sum(knorm,"./a, (b).mjs") ∘ topK', 'sum(knorm,bright(scale=2,mark=none)) ∘ topK'],
  ])('%s has third-party pieces, and its label is read back', async (text, label) => {
    expect((await resolvePolicy(text, { cwd })).label).toBe(label);
    expect((await resolvePolicy(label, { cwd })).label).toBe(label);
  });
  it('kv pieces prints what it lists as it is read', async () => {
    const all = (await kv(['pieces'], { cwd })).stdout;
    expect(all).toContain('bright(scale=2,mark=none)');
    expect(all).toContain('reserve(slots=2)');
  });
  it.each([
    ['snapvk', /^policy: expected the name of a policy \(did you mean snapkv/],
    [
      'snapkv(windw=3)',
      /^snapkv: expected the options window, kernel, pooling, got 'windw' \(did you mean window\?\)$/,
    ],
    ['snapkv(window=wide)', /^snapkv: window must be a number such as 64, got 'wide'$/],
    ['snapkv(window="16")', /^snapkv: window must be a number such as 64, got '"16"'$/],
    ['snapkv(window=-1)', /^snapkv: window must be a positive whole number of queries, got -1$/],
    ['snapkv(window=1,window=2)', /^snapkv: expected every option once, got 'window' twice$/],
    ['snapkv(16)', /^snapkv: expected options window=64, kernel=5, pooling=mean, got '16'$/],
    ['full(x=1)', /^full: expected no options, got 'x'$/],
    ['knorm ∘ tpK', /^policy: expected the name of an installed piece \(did you mean topK/],
    ['weighted(1*knrom) ∘ topK', /^policy: expected the name of an installed piece \(did you mean knorm/],
    ['sum(knorm,recncy) ∘ topK', /^policy: expected the name of an installed piece \(did you mean recency/],
    ['topK', /^policy: 'topK' starts from .*, expected a scorer such as knorm at its start$/],
    ['topK ∘ topK', /^compose: 'topK' needs scores, but 'topK' before it leaves kept slots$/],
    ['knorm ∘ minMax', /^policy: 'knorm ∘ minMax' leaves no kept slots, expected a selector such as topK at its end$/],
    ['constructor', /^policy: expected the name of a policy/],
    ['__proto__', /^policy: expected the name of a policy/],
    ['./nowhere.mjs', /^\.\/nowhere\.mjs: expected a file, got nothing at this path$/],
    ['sum(./nowhere.mjs) ∘ topK', /^\.\/nowhere\.mjs: expected a file, got nothing at this path$/],
    ['@kv/tasks', /^@kv\/tasks: expected a module that exports 'policy' .*, got the exports /],
    ['broken(x=1) ∘ topK', /^broken: expected a piece from these options, got RangeError: x is out$/],
    ['bright(scale=big) ∘ topK', /^bright: scale must be a number such as 2, got 'big'$/],
    ['bright(3) ∘ topK', /^bright: expected an option as name=value, got '3'$/],
    [
      'bright(word=a(b)) ∘ topK',
      /^bright: word must be one value \(text with any of .* in double quotes\), got 'a\(b\)'$/,
    ],
    ['./again.mjs', /^again: asks for itself$/],
    ['reserve ∘ topK', /^reserve: expected one scorer as by=SCORER, got 0$/],
    ['"./a, (b).mjs ∘ topK', /^policy: expected a closing quote, got /],
  ])('refuses %s in one sentence', async (text, sentence) => {
    const error: unknown = await resolvePolicy(text, { cwd }).catch((cause: unknown) => cause);
    expect(KvError.is(error), String(error)).toBe(true);
    expect((error as Error).message).toMatch(sentence);
  });
});
