import { callback, count, flag, maybe, object, text, whole } from '@kv/core';
import type { OptionValues } from '@kv/core';
import type { Environment } from './environment.ts';
import type { Progress } from './meter.ts';

/** What a download will bring. */
export interface DownloadPlan {
  /** The repository, `org/name`. */
  readonly repo: string;
  readonly commit: string;
  /** Identifier of its licence, such as `apache-2.0`, if the repository names one. */
  readonly license: string | undefined;
  /** Bytes of all files. */
  readonly total: number;
  /** Bytes of an earlier attempt that are here already. */
  readonly here: number;
}

/** Options of `fetchModel` in a browser. */
export const FETCH_IN_BROWSER = {
  revision: text('main', 'a branch, tag or commit', 'Branch, tag or commit.'),
  offline: flag(false, 'Use only what is stored already.'),
  onPlan: callback<(plan: DownloadPlan) => void | Promise<void>>(
    'Called with what a download will bring, before it begins; the download waits for a promise, and does not begin if it rejects.',
  ),
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
