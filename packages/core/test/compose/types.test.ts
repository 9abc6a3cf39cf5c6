import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import ts from 'typescript';
import { beforeAll, describe, expect, test } from 'vitest';
import { WRONG } from './wrong.ts';

const here = import.meta.dirname,
  packages = resolve(here, '../../..');
const source = (path: string): string[] => [resolve(packages, path, 'src/index.ts')];
const options: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  allowImportingTsExtensions: true,
  skipLibCheck: true,
  types: ['node', '@webgpu/types'],
  typeRoots: [resolve(packages, '../node_modules/@types'), resolve(packages, '../node_modules')],
  customConditions: ['@kv/source'],
  lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
  paths: {
    '@kv/core': source('core'),
    '@kv/checkpoints': source('checkpoints'),
    '@kv/engine': source('engine'),
    '@kv/engine-wasm': source('engine-wasm'),
    '@kv/models': source('models'),
    '@kv/scorers-attention': source('scorers/attention'),
    '@kv/scorers-caote': source('scorers/caote'),
    '@kv/allocators-pyramidal': source('allocators/pyramidal'),
    '@kv/selectors-top-k': source('selectors/top-k'),
  },
};
const HEAD =
  "import { cadence, compose, id, log1p, max, normalize, pool, softmax, sum, weighted, zScore } from '@kv/core';\nimport { best, caote, chunks, knorm, levels, pyramidal, rarity, snapkv, topK } from './pieces.ts';\n";

/** Valid policies. */
const RIGHT = [
  'snapkv(), caote(), pyramidal(), topK()',
  'pyramidal(), knorm(), topK()',
  'knorm(), softmax(), caote(), topK()',
  'snapkv(), chunks(), best(), topK()',
  'cadence({ every: 4 }), snapkv(), topK()',
  '',
  'zScore(), softmax()',
  'sum(snapkv(), rarity()), caote()',
  'max(snapkv(), knorm()), topK()',
  'weighted([1, snapkv()], [2, knorm()]), topK()',
  'id, snapkv(), id',
  'snapkv(), topK(), levels()',
];
const parts = ['snapkv()', 'caote()', 'pyramidal()', 'topK()'] as const;
/** The same policy, grouped in every way. */
const GROUPED = [
  `compose(compose(${parts[0]}, ${parts[1]}), ${parts[2]}, ${parts[3]})`,
  `compose(${parts[0]}, compose(${parts[1]}, ${parts[2]}), ${parts[3]})`,
  `compose(${parts[0]}, ${parts[1]}, compose(${parts[2]}, ${parts[3]}))`,
  `compose(compose(${parts[0]}, compose(${parts[1]}, ${parts[2]})), ${parts[3]})`,
  `compose(${parts[0]}, compose(${parts[1]}, compose(${parts[2]}, ${parts[3]})))`,
  `compose(id, compose(${parts.join(', ')}), id)`,
];
const README = readFileSync(resolve(packages, '../README.md'), 'utf8').match(/```js\n([^]*?)```/)?.[1] ?? '';

const fixtures: Record<string, string> = {};
const add = (name: string, text: string): string => {
  const path = resolve(here, `${name}.fixture.ts`);
  fixtures[path] = text;
  return path;
};
const wrong = WRONG.map(([s], i) => add(`wrong-${i}`, `${HEAD}export const x = compose(${s});\n`));
const right = RIGHT.map((s, i) => add(`right-${i}`, `${HEAD}export const x = compose(${s});\n`));
const grouped = add(
  'grouped',
  `${HEAD}type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
const flat = compose(${parts.join(', ')});
${GROUPED.map((g, i) => `const p${i} = ${g};\nexport const same${i}: Same<typeof flat, typeof p${i}> = true;`).join('\n')}\n`,
);
const uncalled = add('uncalled', `${HEAD}export const x = compose(snapkv(), topK);\n`);
const list = add(
  'list',
  `${HEAD}import type { Piece } from '@kv/core';\nexport const x: Piece = compose(...([snapkv(), topK()] as Piece[]));\n`,
);
const readme = add('readme', `${README}\nexport {};\n`);

let program: ts.Program;
/** Returns the compiler's messages about a fixture, one text per diagnostic. */
const says = (path: string): string[] => {
  const file = program.getSourceFile(path)!;
  return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map((d) =>
    ts.flattenDiagnosticMessageText(d.messageText, '\n'),
  );
};

beforeAll(() => {
  const host = ts.createCompilerHost(options),
    { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (path) => path in fixtures || fileExists(path);
  host.readFile = (path) => fixtures[path] ?? readFile(path);
  host.getSourceFile = (path, ...rest) =>
    path in fixtures
      ? ts.createSourceFile(path, fixtures[path], ts.ScriptTarget.ES2022, true)
      : getSourceFile(path, ...rest);
  program = ts.createProgram(Object.keys(fixtures), options, host);
}, 120_000);

describe('a wrong order does not compile, and the compiler says the sentence', () => {
  test.each(WRONG.map(([s, sentence], i) => [s, sentence, wrong[i]] as const))(
    'compose(%s)',
    (_source, sentence, path) => {
      const said = says(path);
      expect(said).toHaveLength(1);
      expect(said[0]).toContain(sentence);
    },
  );
  test('a function that was not called', () => expect(says(uncalled).join()).toMatch(/not assignable|No overload/));
});
describe('what stands compiles', () => {
  test.each(RIGHT.map((s, i) => [s, right[i]] as const))('compose(%s)', (_source, path) =>
    expect(says(path)).toEqual([]),
  );
  test('regrouped compositions have the identical type', () => expect(says(grouped)).toEqual([]));
  test('a list of unknown length is a piece', () => expect(says(list)).toEqual([]));
  test("the README's first example", () => {
    expect(README).toContain("compose(snapkv({ window: 16, kernel: 17, pooling: 'max' }), caote(), topK());");
    expect(says(readme)).toEqual([]);
  });
});
