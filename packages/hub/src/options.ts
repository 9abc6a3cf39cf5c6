import { callback, count, flag, maybe, object, text, whole } from '@kv/core';
import type { OptionValues } from '@kv/core';
import type { Environment } from './environment.ts';
import type { Progress } from './meter.ts';

/** Options of `fetchModel` in a browser. */
export const FETCH_IN_BROWSER = {
  revision: text('main', 'a branch, tag or commit', 'Branch, tag or commit.'),
  offline: flag(false, 'Use only what is stored already.'),
  onProgress: callback<(progress: Progress) => void>('Called as bytes come.'),
  signal: object<AbortSignal>(
    'an AbortSignal',
    "Aborts the download, which then throws the signal's reason; the next call resumes it.",
  ),
  attempts: count(5, 'attempts', 'Most attempts in a row that bring no bytes.'),
};
export interface BrowserFetchOptions extends OptionValues<typeof FETCH_IN_BROWSER> {}

export const FETCH = {
  ...FETCH_IN_BROWSER,
  offline: maybe(flag(false, 'Use only what is in the cache.'), 'what `HF_HUB_OFFLINE` says'),
  onWait: callback<() => void>('Called if another process is downloading the same model.'),
  env: object<Environment>(
    'an environment',
    'Source of `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_TOKEN`, `HTTPS_PROXY` and the like.',
    '`process.env`',
  ),
  backoffMs: whole(500, 'milliseconds', 'Wait before the second attempt, doubled for every further one.'),
  timeoutMs: count(30_000, 'milliseconds', 'Time without a byte after which an attempt fails.'),
};
/** Options of `fetchModel` in Node. */
export interface FetchOptions extends OptionValues<typeof FETCH> {}
