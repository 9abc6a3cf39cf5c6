import { KvError } from '@kv/core';
import type { Environment } from './environment.ts';
import { reasonOf } from './retry.ts';

/** How requests leave this machine. */
export interface Route {
  readonly fetch: typeof fetch;
  close(): Promise<void>;
}

/** Reads a variable; the lower-case name takes precedence, as in curl. */
const variable = (env: Environment, name: string): string => env[name.toLowerCase()] || env[name] || '';

/**
 * Returns a route through the proxies of `HTTP_PROXY` and `HTTPS_PROXY`, except for the hosts of `NO_PROXY`. It uses
 * undici, the core of Node's own fetch, since that does not read these variables in Node 20. Without them
 * it is Node's fetch.
 * @throws KvError for a proxy that is not an http(s) URL, or if undici is not installed
 */
export async function routeOf(env: Environment): Promise<Route> {
  const http = proxyOf(env, 'HTTP_PROXY'),
    https = proxyOf(env, 'HTTPS_PROXY');
  if (http === undefined && https === undefined) return { fetch, close: async () => {} };
  let undici: typeof import('undici');
  try {
    undici = await import('undici'); // inside `try`, webpack builds without it too
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new KvError(
      'HTTPS_PROXY',
      `expected the package undici next to @kv/hub, which speaks to proxies, got ${code ?? message}`,
    );
  }
  const agent = new undici.EnvHttpProxyAgent({
    httpProxy: http?.href ?? '',
    httpsProxy: https?.href ?? '',
    noProxy: variable(env, 'NO_PROXY'),
    proxyTunnel: false,
  });
  return {
    fetch: async (input, init) => {
      const proxy = new URL(String(input)).protocol === 'https:' ? https : http;
      // Without a proxy for https the agent would use that of http.
      if (proxy === undefined) return fetch(input, init);
      try {
        return (await undici.fetch(String(input), { ...init, dispatcher: agent } as object)) as unknown as Response;
      } catch (cause) {
        throw new Error(`${reasonOf(cause)} (a proxy is set: ${proxy.host})`);
      }
    },
    close: () => agent.destroy(),
  };
}

function proxyOf(env: Environment, name: string): URL | undefined {
  const text = variable(env, name);
  if (text === '') return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // The text may contain a password.
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new KvError(
      name,
      `expected an http(s) URL of a proxy, got ${url === undefined ? 'text that is no URL' : `one of ${url.protocol}`}`,
    );
  return url;
}
