import { loadModel } from '@kv/models';
import type { Model } from '@kv/models';
import { catalogue } from '@kv/policies';
import { createServer } from '../src/index.ts';
import type { Server, ServerOptions } from '../src/index.ts';

let loading: Promise<Model> | undefined;
/** The embedded model, loaded once. */
export const embedded = (): Promise<Model> => (loading ??= loadModel('embedded'));

export interface Serving {
  readonly server: Server;
  readonly url: string;
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  /** Sends a POST and returns its status and body. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Answered>;
}
interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly json: any;
}

/** Starts a server of the embedded model on a free loopback port. */
export async function serve(options: Partial<ServerOptions> = {}): Promise<Serving> {
  const lines: Record<string, unknown>[] = [];
  const server = createServer({
    model: await embedded(),
    name: 'embedded',
    memory: 256 * 2 ** 20,
    registry: catalogue,
    log: { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
    ...options,
  });
  const url = await server.listen({ port: 0 });
  return {
    server,
    url,
    lines,
    async post(path, body, headers = {}) {
      const answer = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' || body instanceof Uint8Array ? (body as string) : JSON.stringify(body),
      });
      return { status: answer.status, headers: answer.headers, json: await answer.json() };
    },
  };
}

/** The data of server-sent events. */
export async function frames(answer: Response): Promise<readonly string[]> {
  return (await answer.text())
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => frame.replace(/^data: /, ''));
}
