export { fetchModel } from './fetch-model.ts';
export type { DownloadPlan, FetchOptions } from './options.ts';
export { parseModelName } from './model-name.ts';
export type { ModelName } from './model-name.ts';
export type { RepoName } from './repo-name.ts';
export type { Progress } from './meter.ts';
export { partsOf } from './choose.ts';
export { cachedModels, modelsIn } from './cached-models.ts';
export type { CachedModel } from './cached-models.ts';
