import { KvError } from '@kv/core';
import type { HttpResponse, Hub } from './http.ts';
import { ConnectionLost } from './retry.ts';

/** A request, for error messages. */
interface Asked {
  readonly repo: string;
  readonly revision: string;
  readonly file?: string;
}

/** Whether trouble may pass: a proxy's own codes above 504 too. */
const mayPass = (status: number): boolean => [408, 425, 429].includes(status) || (status >= 500 && status !== 501);
/** Longest `Retry-After` in seconds that is worth waiting for at a terminal. */
const MAX_WAIT_S = 120;

/**
 * Returns a response with status 200 or 206 unchanged.
 * @throws ConnectionLost for trouble that may pass; KvError in one sentence for a refusal
 */
export function acceptResponse(answer: HttpResponse, hub: Hub, asked: Asked): HttpResponse {
  const { status, headers } = answer;
  if (status === 200 || status === 206) return answer;
  answer.end();
  throw mayPass(status)
    ? passing(status, headers.get('retry-after'), hub)
    : refusal(status, headers.get('x-error-code'), hub, asked);
}

function passing(status: number, after: string | null, { endpoint }: Hub): Error {
  if (after === null) return new ConnectionLost(`HTTP status ${status}`);
  const seconds = /^\d+$/.test(after.trim()) ? Number(after) : (Date.parse(after) - Date.now()) / 1000;
  if (seconds > MAX_WAIT_S)
    return new KvError(
      endpoint,
      `expected an answer, got HTTP status ${status} and the request to wait ${Math.ceil(seconds)} s`,
    );
  return new ConnectionLost(
    `HTTP status ${status}`,
    Number.isFinite(seconds) ? Math.max(0, 1000 * seconds) : undefined,
  );
}

function refusal(
  status: number,
  code: string | null,
  { endpoint, token, tokenAdvice }: Hub,
  { repo, revision, file }: Asked,
): KvError {
  const page = `${endpoint}/${repo}`;
  if (code === 'GatedRepo')
    return new KvError(
      repo,
      token === undefined
        ? `expected access to a gated repository, got no token: accept its terms at ${page} and ${tokenAdvice}`
        : `expected access to a gated repository, got a token without it: accept its terms at ${page}`,
    );
  if (code === 'RevisionNotFound')
    return new KvError(repo, `expected a branch, tag or commit of the repository, got '${revision}'`);
  if (code === 'EntryNotFound')
    return new KvError(repo, `expected the file ${file ?? ''} at revision ${revision}, got none`);
  if (code === 'DisabledRepo')
    return new KvError(repo, `expected a repository that ${endpoint} offers, got one that it has disabled`);
  // The hub answers 401 for a repository that does not exist too, so as not to reveal private ones.
  if (code === 'RepoNotFound' || status === 404)
    return new KvError(
      repo,
      `expected a repository on ${endpoint}, got none of this name${token === undefined ? ` (for a private one ${tokenAdvice})` : ' that the token may see'}`,
    );
  if (status === 401 || status === 403)
    return new KvError(
      repo,
      token === undefined
        ? `expected access, got HTTP status ${status} and no token: ${tokenAdvice}`
        : `expected access, got HTTP status ${status} for the token: is it still valid?`,
    );
  return new KvError(repo, `expected an answer of ${endpoint}, got HTTP status ${status}`);
}
