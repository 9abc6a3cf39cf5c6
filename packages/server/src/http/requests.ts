import type { FastifyError, FastifyInstance, FastifyRequest } from 'fastify';
import { keepNumbers } from '@kv/models';
import { Refusal, refusalOf } from '../protocol/refusal.ts';
import { schemaRefusal } from '../protocol/schema.ts';
import type { SchemaError } from '../protocol/schema.ts';

/** Maximum nesting depth of a body. The protocol needs seven, schemas of tools more. */
const DEPTH = 64;

export const pathOf = ({ url }: Pick<FastifyRequest, 'url'>): string => url.split('?', 1)[0] ?? '';

/** Headers that must be unique: given two, a proxy and this server may disagree about which one counts. */
const SINGLE = ['host', 'authorization', 'x-api-key', 'content-type', 'content-length', 'content-encoding'];

/** @throws Refusal for a header that is there twice, for no host, or a body in an encoding */
export function expectHeaders({ raw: { rawHeaders, httpVersion }, headers }: FastifyRequest): void {
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase()),
    twice = SINGLE.find((name) => names.indexOf(name) !== names.lastIndexOf(name));
  if (headers.host === undefined && httpVersion === '1.1') throw new Refusal("the header 'host' is expected, got none");
  if (twice !== undefined) throw new Refusal(`the header '${twice}' is expected once, got it more than once`);
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity')
    throw new Refusal(
      `the header 'content-encoding: ${encoding.slice(0, 40)}' is not supported: send the body uncompressed, without it`,
      { status: 415 },
    );
}

/** Fields that hold JSON schemas, in which null is a value. */
const SCHEMAS: ReadonlySet<unknown> = new Set(['parameters', 'schema', 'input_schema']);

/** Parses bodies as JSON in UTF-8 and drops fields that are null, at any depth but within schemas. */
export function readJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (request.method === 'DELETE' && body.length === 0) {
      done(null, undefined);
      return;
    }
    let text: string;
    try {
      text = new TextDecoder('utf-8', { fatal: true }).decode(body as Buffer);
    } catch {
      done(new Refusal('the body must be UTF-8'), undefined);
      return;
    }
    parse(request, text, (error, value) => {
      if (error) done(forbiddenKey(text) ?? error, undefined);
      else if (dropNulls(value)) {
        keepNumbers(value, text);
        done(null, value);
      } else done(new Refusal(`the body must have at most ${DEPTH} lists and objects within one another`), undefined);
    });
  });
}

/** Returns a refusal that names the key for which the parser took JSON to be none; undefined where it is none. */
function forbiddenKey(text: string): Refusal | undefined {
  let found: string | undefined;
  try {
    JSON.parse(text, (key, value: unknown) => {
      if (key === '__proto__') found = key;
      if (key === 'constructor' && Object.hasOwn(Object(value), 'prototype')) found = 'constructor.prototype';
      return value;
    });
  } catch {
    return undefined;
  }
  return found === undefined
    ? undefined
    : new Refusal(`the body must have no key '${found}', which would change how objects behave`);
}

/** Deletes null fields in place, but for those of schemas. Returns false for a value nested too deeply. */
function dropNulls(value: unknown): boolean {
  let level: object[] = typeof value === 'object' && value !== null ? [value] : [];
  const schemas = new Set<object>();
  for (let depth = 0; level.length > 0; depth++) {
    if (depth === DEPTH) return false;
    const next: object[] = [];
    for (const each of level) {
      const schema = schemas.has(each);
      for (const field of Array.isArray(each) ? each.keys() : Object.keys(each)) {
        const item = (each as Record<string | number, unknown>)[field];
        if (item === null && !schema && !Array.isArray(each)) delete (each as Record<string, unknown>)[field];
        if (typeof item !== 'object' || item === null) continue;
        next.push(item);
        // what a call is given: a list of this name is a conversation
        const given = field === 'input' && !Array.isArray(item);
        if (schema || given || SCHEMAS.has(field)) schemas.add(item);
      }
    }
    level = next;
  }
  return true;
}

/** Where a protocol answers, and how it writes its errors. */
export interface ErrorForm {
  readonly path: string;
  error(refusal: Refusal): object;
}

/** Returns the body of an error in the form of the protocol whose path it is, or lies below; OpenAI's at any other. */
export function errorBody(refusal: Refusal, request: Pick<FastifyRequest, 'url'>, forms: readonly ErrorForm[]): object {
  const at = `${pathOf(request)}/`;
  return forms.find(({ path }) => at.startsWith(`${path}/`))?.error(refusal) ?? refusal.body;
}

/** Makes every error a response with the protocol's error object. */
export function answerErrors(app: FastifyInstance, bodyBytes: number, forms: readonly ErrorForm[]): void {
  const paths = [...forms.map(({ path }) => path), '/v1/models'];
  app.setNotFoundHandler((request) => {
    const path = pathOf(request),
      method = path === '/v1/models' ? 'GET' : 'POST',
      since = path === '/v1/embeddings' ? ', since it makes no embeddings' : '';
    if (paths.includes(path) && request.method !== method)
      throw new Refusal(`${path} is answered at ${method}, got ${request.method}`, { status: 405 });
    throw new Refusal(
      `there is nothing at ${request.method} ${path.slice(0, 100)}${since}: this server answers at ${paths.join(', ')}`,
      { status: 404 },
    );
  });
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    const refusal = refusalFor(error, request, bodyBytes);
    if (refusal.status >= 500 && refusal !== (error as unknown)) request.log.error({ err: error }, 'a request failed');
    if (refusal.retryAfter !== undefined) reply.header('retry-after', refusal.retryAfter);
    if (refusal.status === 401) reply.header('www-authenticate', 'Bearer');
    return reply.code(refusal.status).send(errorBody(refusal, request, forms));
  });
}

/** Converts any error to a refusal. */
export function refusalFor(error: FastifyError, { headers }: FastifyRequest, bodyBytes: number): Refusal {
  try {
    if (error instanceof Refusal) return error;
    if (error.validation !== undefined) {
      const { param, message } = schemaRefusal(error.validation as unknown as readonly SchemaError[]);
      return new Refusal(message, { param });
    }
    if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
      const sent = headers['content-type'];
      return new Refusal(
        `the header 'content-type: application/json' is expected with the body, got ${sent === undefined ? 'none' : `'${sent.slice(0, 80)}'`}`,
        { status: 415 },
      );
    }
    if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE')
      return new Refusal(`the body must be at most ${bodyBytes} bytes`, { status: 413 });
    const { statusCode = 500 } = error;
    return statusCode >= 400 && statusCode < 500
      ? new Refusal(error.message, { status: statusCode })
      : refusalOf(error);
  } catch (cause) {
    return refusalOf(cause);
  }
}
