/**
 * Which package may import which: core <- pieces (scorers, selectors, allocators, ...) <- policies <- apps; and core <-
 * checkpoints <- engine <- engine-wasm, engine-onnx, engine-webgpu <- models <- apps. A piece is any package one folder
 * deeper than the others: packages/FAMILY/NAME.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cruise } from 'dependency-cruiser';

const rule = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to });
const workspace = '^(packages|apps|tools|studies)/';

export const rules = [
  rule(
    'core-stands-alone',
    'core imports nothing but itself: no package, no third party, no Node module.',
    { path: '^packages/core/src/' },
    { pathNot: '^packages/core/src/' },
  ),
  rule(
    'pieces-see-core-only',
    'a piece imports no other package of the workspace than core.',
    { path: '^(packages/[^/]+/[^/]+)/src/', pathNot: '^packages/adapters/' },
    { path: workspace, pathNot: ['^packages/core/', '^$1/'] },
  ),
  rule(
    'adapters-see-core-and-policies',
    'an adapter imports no other package of the workspace than core, cpu and policies, which reads texts.',
    { path: '^(packages/adapters/[^/]+)/src/' },
    { path: workspace, pathNot: ['^packages/(core|cpu|policies)/', '^$1/'] },
  ),
  rule(
    'satellites-see-core-only',
    'cpu, gpu, tasks and others import no other package of the workspace than core.',
    {
      path: '^(packages/[^/]+)/src/',
      pathNot:
        '^packages/(core|laws|checkpoints|engine|engine-onnx|engine-testing|engine-wasm|models|page|policies|engine-webgpu|evaluation|grammars|model-testing|server|create-app)/',
    },
    { path: workspace, pathNot: ['^packages/core/', '^$1/'] },
  ),
  rule(
    'laws-see-core-and-cpu',
    'laws imports no other package of the workspace than core and cpu.',
    { path: '^packages/laws/src/' },
    { path: workspace, pathNot: '^packages/(core|cpu|laws)/' },
  ),
  rule(
    'checkpoints-see-core-only',
    'checkpoints, which have no engine, import no other package of the workspace than core.',
    { path: '^packages/checkpoints/src/' },
    { path: workspace, pathNot: '^packages/(core|checkpoints)/' },
  ),
  rule(
    'engine-sees-core-checkpoints-and-policies',
    'engine imports no other package of the workspace than core, cpu, checkpoints, policies, which reads texts, and grammars.',
    { path: '^packages/engine/src/' },
    { path: workspace, pathNot: '^packages/(core|cpu|checkpoints|engine|policies|grammars)/' },
  ),
  rule(
    'grammars-see-core-and-checkpoints',
    'grammars, which have no engine, import no other package of the workspace than core and checkpoints.',
    { path: '^packages/grammars/src/' },
    { path: workspace, pathNot: '^packages/(core|checkpoints|grammars)/' },
  ),
  rule(
    'grammars-on-demand',
    'engine imports grammars where an answer must follow one: import(), or types.',
    { path: '^packages/engine/src/' },
    { path: '^packages/grammars/', dynamic: false, dependencyTypesNot: ['type-only'] },
  ),
  rule(
    'engines-see-engine',
    'an engine of a kind imports no other package of the workspace than core, cpu, checkpoints and engine.',
    { path: '^(packages/engine-[a-z]+)/src/', pathNot: '^packages/engine-webgpu/' },
    { path: workspace, pathNot: ['^packages/(core|cpu|checkpoints|engine)/', '^$1/'] },
  ),
  rule(
    'models-see-engines',
    'models imports no other package of the workspace than core, checkpoints, engine, engine-wasm and engine-onnx.',
    { path: '^packages/models/src/' },
    { path: workspace, pathNot: '^packages/(core|checkpoints|engine|engine-wasm|engine-onnx|models)/' },
  ),
  rule(
    'onnx-on-demand',
    'models imports engine-onnx, which is optional, where it is asked for: import(), or types.',
    { path: '^packages/models/src/' },
    { path: '^packages/engine-onnx/', dynamic: false, dependencyTypesNot: ['type-only'] },
  ),
  rule(
    'server-sees-core-engine-and-models',
    'server imports no other package of the workspace than core, engine, grammars and models.',
    { path: '^packages/server/src/' },
    { path: workspace, pathNot: '^packages/(core|engine|grammars|models|server)/' },
  ),
  rule(
    'engine-webgpu-sees-gpu-too',
    'engine-webgpu imports no other package of the workspace than core, gpu, checkpoints and engine.',
    { path: '^packages/engine-webgpu/src/' },
    { path: workspace, pathNot: '^packages/(core|gpu|checkpoints|engine|engine-webgpu)/' },
  ),
  rule(
    'page-sees-what-a-page-needs',
    'page imports no other package of the workspace than core, models, policies, hub, gpu and engine-webgpu.',
    { path: '^packages/page/src/' },
    { path: workspace, pathNot: '^packages/(core|models|policies|hub|gpu|engine-webgpu|page)/' },
  ),
  rule(
    'create-app-sees-create-piece',
    'create-app imports no other package of the workspace than create-piece, which fills templates.',
    { path: '^packages/create-app/src/' },
    { path: workspace, pathNot: '^packages/create-(app|piece)/' },
  ),
  rule(
    'evaluation-sees-what-it-measures',
    'evaluation imports no other package of the workspace than core, checkpoints, engine, models, policies, tasks, certificates, hub and the scorer that it fits.',
    { path: '^packages/evaluation/src/' },
    {
      path: workspace,
      pathNot: '^packages/(core|checkpoints|engine|models|policies|tasks|certificates|hub|evaluation|scorers/gate)/',
    },
  ),
  rule(
    'policies-see-core-and-pieces',
    'policies imports no other package of the workspace than core and pieces.',
    { path: '^packages/policies/src/' },
    { path: workspace, pathNot: ['^packages/(core|policies)/', '^packages/[^/]+/[^/]+/src/'] },
  ),
  rule(
    'catalogue-on-demand',
    'what reads texts imports policies where a text is given, so that it does not carry the catalogue: import().',
    { path: '^packages/(engine|adapters)/.*src/' },
    { path: '^packages/policies/', dynamic: false },
  ),
  rule(
    'no-one-imports-apps',
    'only a study imports an app.',
    { pathNot: '^(apps|tools|bench|studies)/' },
    { path: '^apps/' },
  ),
  rule('no-one-imports-studies', 'nothing imports a study.', { pathNot: '^studies/' }, { path: '^studies/' }),
  rule(
    'no-reaching-inside',
    'another package is imported by its name, never by a path into its folder.',
    { path: '^(packages/[^/]+/[^/]+|packages/[^/]+|apps/[^/]+)/(src|test)/' },
    { dependencyTypes: ['local'], pathNot: '^$1/' },
  ),
  rule(
    'oracles-import-types-only',
    'an oracle is independent: from the workspace it imports types and other oracles only.',
    { path: '[.]oracle[.]ts$' },
    { path: workspace, pathNot: '[.]oracle[.]ts$', dependencyTypesNot: ['type-only'] },
  ),
  rule('no-circles', 'two files do not need each other, not even for types.', { path: '/src/' }, { circular: true }),
  rule(
    'resolvable',
    'an import leads to a declared dependency and to something that it exports.',
    { path: workspace },
    { couldNotResolve: true },
  ),
];

const resolving = {
  exportsFields: ['exports'],
  conditionNames: ['@kv/source', 'types', 'import', 'node', 'default'],
  extensions: ['.ts', '.mjs', '.js', '.d.ts', '.json'],
};
const options = {
  tsPreCompilationDeps: true, // 'specify' would compile every file too; `import type` says what is a type
  skipAnalysisNotInRules: true,
  doNotFollow: { path: 'node_modules' },
  exclude: {
    // kernel and loop folders are AssemblyScript
    path: [
      '/(dist|node_modules/[.]|[.]generated)',
      '^packages/[^/]+/kernel/',
      '^packages/[^/]+/[^/]+/(kernel|loop)/',
      '^packages/create-piece/templates/',
      '^packages/create-app/templates/',
    ],
  },
  validate: true,
  ruleSet: { forbidden: rules },
};

/** Returns one sentence for each forbidden import under `folders`, sorted. */
export async function violations(baseDir, folders = ['packages', 'apps', 'studies']) {
  const there = folders.filter((folder) => existsSync(join(baseDir, folder)));
  const { output } = await cruise(there, { ...options, baseDir }, resolving);
  return output.summary.violations
    .map(
      ({ from, to, rule }) =>
        `${from} imports ${to}: ${rules.find(({ name }) => name === rule.name).comment} [${rule.name}]`,
    )
    .sort();
}
