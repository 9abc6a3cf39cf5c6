import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { KvError, parsePolicy } from '@kv/core';
import { compile, settleOwn } from '@kv/core/engine';
import { expectBias, expectKept, formOf, headDims, samplingOf, stateBytes, tokenBytes } from '@kv/engine';
import { grammarsOf } from '@kv/grammars';
import { expectRead } from '@kv/models';
import type { CacheForm, Model } from '@kv/models';
import Fastify, { LogController } from 'fastify';
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify';
import pino from 'pino';
import { LIMITS, SERVER } from './options.ts';
import type { ServerOptions } from './options.ts';
import { AnswerShapes } from './protocol/answer-shape.ts';
import { clientRegistry, expectModel, sequencePolicyOf } from './protocol/request.ts';
import { Refusal } from './protocol/refusal.ts';
import { TextReader } from './protocol/text-reader.ts';
import { chat } from './protocols/chat/chat.ts';
import { completions } from './protocols/completions/completions.ts';
import { countTokens, messages } from './protocols/messages/messages.ts';
import { responseRoutes, responses } from './protocols/responses/responses.ts';
import type { ResponseRecord } from './protocols/responses/responses.ts';
import { Answers } from './http/answers.ts';
import { goneSignal } from './http/disconnect-signal.ts';
import { keyCheck } from './http/keys.ts';
import { conversationsOf, createMetrics, memoryOf } from './http/metrics.ts';
import { PAGE, PAGE_HEADERS } from './http/page.ts';
import { answerErrors, errorBody, expectHeaders, pathOf, readJson, refusalFor } from './http/requests.ts';
import { why, whyRequest } from './http/why.ts';
import { storeOf } from './run/conversation-folder.ts';
import { NamedConversations } from './run/named-conversations.ts';
import { textBytes } from './run/memory-estimate.ts';
import { Scheduler } from './run/scheduler.ts';

/** A configured server; call `listen` to start it. */
export interface Server {
  /** Starts listening and returns the address. @throws KvError for a host other than loopback without keys */
  listen(at: { readonly host?: string; readonly port: number }): Promise<string>;
  /** Refuses new requests, waits `graceMs` milliseconds for running ones, then aborts them. @defaultValue 10,000 */
  close(graceMs?: number): Promise<void>;
  /** Current memory figures in bytes, as `/status` reports them. */
  readonly memory: Readonly<Record<string, number>>;
  /** Current counts: prompts queued, prompts being read, answers being generated. */
  readonly prompts: { readonly waiting: number; readonly reading: number; readonly answering: number };
}

/** Bodies up to this many bytes are read without a memory reservation. */
const FREE = 2 ** 14;
/** Whether a host is this machine alone, as it is listened on or spoken to. */
const isLoopback = (host: string): boolean => /^(?:localhost|::1|\[::1\]|127(?:\.\d{1,3}){3})$/i.test(host);
/** @throws KvError for a host other than loopback where requests bring no keys */
export function expectHost(host: string, keyed: boolean): void {
  if (!keyed && !isLoopback(host))
    throw new KvError('host', `expected a loopback address such as 127.0.0.1 without API keys, got ${host}`);
}
const newRequestId = (): string => `req_${randomUUID()}`;
const OPEN = new Set([...Object.keys(PAGE), '/health']);

/**
 * Creates a server that speaks the protocols of OpenAI and Anthropic for one model. @throws KvError where `memory` holds no forward pass
 * @example
 * ```ts
 * const server = createServer({ model, name: 'embedded', memory: 2 ** 29, registry: catalogue });
 * await server.listen({ port: 8080 });
 * ```
 */
export function createServer(options: ServerOptions): Server {
  const { name, memory, budget, block, every, chatTemplateKwargs, protect, fixedPolicy, keys, redact, ...given } =
      settleOwn('createServer', SERVER, options),
    model = storedAs(given.model, given.cache),
    policy = typeof given.policy === 'string' ? parsePolicy(given.policy, given.registry) : given.policy,
    limits = settleOwn('limits', LIMITS, given.limits ?? {}),
    { queue, running, part, ahead, readerMs, requestMs, bodyBytes, headerBytes, receiveMs } = limits,
    { maxPromptTokens = 4 * model.config.maxPositions } = limits;
  const log = pino(
    {
      level: 'info',
      redact: { paths: ['authorization', '*.authorization', 'headers', '*.headers'], remove: true },
      hooks: redact ? { streamWrite: redactedLine(redact) } : {},
    },
    given.log ?? pino.destination(1),
  );
  const metrics = createMetrics((cause) => log.error({ err: cause }, 'a request failed')),
    store = storeOf(given.conversations),
    storeFailed = (cause: unknown): void => log.warn({ err: cause }, 'a stored conversation could not be used'),
    remembered = new NamedConversations<ResponseRecord>(store, storeFailed),
    scheduler = new Scheduler(
      model,
      { memory, queue, running, part, ahead, readerMs, requestMs, conversations: store },
      { ...metrics.observed, storeFailed },
    ),
    defaults = {
      ...{ policy, budget, block, every, fixed: fixedPolicy, registry: clientRegistry(given.registry) },
      sampling: samplingOf(given),
    };
  if (budget !== undefined && !(policy && compile(policy).evicts)) expectKept(policy, budget);
  expectBias(given.logitBias, model.config.vocab);
  const template = chatTemplateKwargs && model.chatTemplate?.();
  if (template) expectRead(template, chatTemplateKwargs);
  else if (chatTemplateKwargs)
    throw new KvError('chatTemplateKwargs', `expected a model with a chat template, got ${model.name}`);
  const reader = new TextReader(model.tokenizer),
    cache = {
      form: model.cacheForm,
      bytesPerToken: tokenBytes(model.cacheForm, model.config),
      stateBytes: stateBytes(model.config),
    };
  metrics.watch(scheduler, cache);
  expectPossible(() => sequencePolicyOf({}, { ...defaults, fixed: false }, model));

  // every protocol that requests may come in
  const protocols = [chat, completions, responses(remembered), messages];
  const app = Fastify({
    loggerInstance: log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: bodyBytes,
    genReqId: newRequestId,
    frameworkErrors(error, request, reply: FastifyReply) {
      const refusal = refusalFor(error, request, bodyBytes);
      void reply.code(refusal.status).send(errorBody(refusal, request, protocols));
    },
    requestTimeout: receiveMs,
    keepAliveTimeout: 5000,
    forceCloseConnections: 'idle',
    http: {
      maxHeaderSize: headerBytes,
      headersTimeout: receiveMs,
      connectionsCheckingInterval: 1000,
      requireHostHeader: false, // refused in a sentence below
    },
    ajv: {
      customOptions: {
        removeAdditional: false,
        coerceTypes: false,
        useDefaults: false,
        allErrors: false,
        verbose: true,
      },
    },
    clientErrorHandler(error, socket) {
      const [status, says] =
          error.code === 'HPE_HEADER_OVERFLOW'
            ? [431, `the headers must be at most ${headerBytes} bytes together, got more`]
            : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
              ? [408, `the request must have come within ${receiveMs} milliseconds, got a part of it`]
              : [400, 'the request is not one of HTTP/1.1'],
        body = JSON.stringify(new Refusal(says, { status }).body),
        id = newRequestId();
      log.info({ reqId: id, status }, 'refused');
      if (socket.writable)
        socket.write(
          `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nX-Request-Id: ${id}\r\nConnection: close\r\n\r\n${body}`,
        );
      socket.destroy();
    },
  });
  const admits = keys && keyCheck(keys);
  const held = new WeakMap<FastifyRequest, () => void>(),
    characters = reader.charactersOf(Math.max(maxPromptTokens, model.config.maxPositions));
  /** Drops the text of a request once it is tokenized, and releases its reservation. */
  const letGo = (request: FastifyRequest): void => {
    request.body = undefined;
    held.get(request)?.();
  };
  app.addHook('onRequest', async (request, reply) => {
    request.raw.socket.setTimeout(0); // a kept-alive connection still has the timeout of its previous answer
    reply.header('x-request-id', request.id);
    expectHeaders(request);
    const length = request.method === 'POST' ? Number(request.headers['content-length'] ?? bodyBytes) : 0;
    // longer bodies are refused unread
    if (length > FREE && length <= bodyBytes) {
      const told = request.headers['content-length'] !== undefined,
        give = await scheduler.requests.hold(textBytes(length, characters), goneSignal(request, reply), told);
      held.set(request, give);
      reply.raw.once('close', give);
    }
    if (admits) {
      if (!OPEN.has(pathOf(request)) && !admits(request.headers))
        throw new Refusal('a key of this server is expected as Authorization: Bearer KEY, or as x-api-key: KEY', {
          status: 401,
          code: 'invalid_api_key',
        });
    } else if (!isLoopback(request.hostname))
      // DNS rebinding: a page whose own name resolves to this server would be same-origin.
      throw new Refusal('the server is spoken to as localhost', { status: 403, code: 'wrong_host' });
  });
  // After the whole answer is written, a reader that takes nothing times out.
  const waitForReader = ({ raw }: FastifyReply): void => void raw.socket?.setTimeout(readerMs);
  app.addHook('onSend', async (_, reply, payload) => {
    if (!(payload instanceof Readable)) waitForReader(reply);
  });
  app.addHook('onResponse', async (request, reply) => {
    metrics.answered(request.routeOptions.url ?? 'none', reply.statusCode);
    request.log.info(
      { method: request.method, path: pathOf(request), status: reply.statusCode, ms: Math.round(reply.elapsedTime) },
      'answered',
    );
  });
  readJson(app);
  answerErrors(app, bodyBytes, [...protocols, countTokens]);

  for (const [path, { type, text }] of Object.entries(PAGE))
    app.get(path, (_, reply) => reply.headers(PAGE_HEADERS).type(type).send(text));
  app.get('/health', async () => ({ status: 'ok', cache }));
  app.get('/metrics', async (_, reply) =>
    reply.type(metrics.registry.contentType).send(await metrics.registry.metrics()),
  );
  app.get('/status', async () => ({
    model: name,
    engine: model.engine,
    policy: policy?.label || 'full',
    ...(budget !== undefined && { budget }),
    cache,
    prompts: scheduler.counts,
    memory: memoryOf(scheduler),
    conversations: conversationsOf(scheduler),
    weights: model.weightBytes,
  }));
  const listed = { id: name, object: 'model', created: Math.floor(Date.now() / 1000), owned_by: 'kv' };
  app.get('/v1/models', async () => ({ object: 'list', data: [listed] }));
  app.get<{ Params: { '*': string } }>('/v1/models/*', async (request) => {
    expectModel(request.params['*'], name);
    return listed;
  });

  const answers = new Answers({
    ...{
      model,
      name,
      scheduler,
      defaults,
      limits,
      maxPromptTokens,
      reader,
      usual: chatTemplateKwargs,
      always: protect,
    },
    shapes: new AnswerShapes(model.chatTemplate?.(), grammarsOf(model)),
    firstToken: metrics.firstToken,
    waitForReader,
    letGo,
  });
  const reading = { model, name, scheduler, defaults, reader, usual: chatTemplateKwargs, maxPromptTokens, letGo };
  app.post('/v1/kv/why', { schema: { body: whyRequest } }, (request, reply) =>
    why(reading, remembered, request, reply),
  );
  for (const protocol of protocols)
    app.post(protocol.path, { schema: { body: protocol.body } }, (request, reply) =>
      answers.answer(protocol, request, reply),
    );
  app.post(countTokens.path, { schema: { body: countTokens.body } }, async (request, reply) => ({
    input_tokens: await answers.count(countTokens.ask(request.body), request, reply),
  }));
  responseRoutes(app, remembered);

  /** Whether it was told to listen, or to close. */
  let listens: 'listens' | 'was closed' | undefined;
  return {
    get memory() {
      return memoryOf(scheduler);
    },
    get prompts() {
      return scheduler.counts;
    },
    async listen({ host = '127.0.0.1', port }) {
      expectHost(host, keys !== undefined);
      if (listens) throw new KvError('listen', `expected a server that has not listened yet, got one that ${listens}`);
      listens = 'listens';
      const address = await app.listen({ host, port });
      log.info(
        {
          address,
          model: name,
          engine: model.engine,
          policy: policy?.label || 'full',
          cache,
          memory: memoryOf(scheduler),
          weights: model.weightBytes,
          rss: process.memoryUsage.rss(),
        },
        'listening',
      );
      return address;
    },
    async close(graceMs = 10_000) {
      listens = 'was closed';
      const closed = app.close();
      await scheduler.close(graceMs);
      const last = setTimeout(() => app.server.closeAllConnections(), 1000);
      await closed;
      clearTimeout(last);
      await remembered.settled();
      log.info({ memory: memoryOf(scheduler) }, 'closed');
    },
  };
}

/** Returns a model whose caches are stored in this form. @throws KvError for one that it cannot have */
function storedAs(model: Model, cache: CacheForm | undefined): Model {
  const { cacheForms: forms, cacheForm: otherwise, config } = model,
    cacheForm = formOf(cache, { forms, otherwise, headDims: headDims(config) });
  return { ...model, cacheForm, memory: (options) => model.memory({ ...options, form: options?.form ?? cacheForm }) };
}

/** Redacts every string in a JSON log line, messages and stack traces included. */
const redactedLine =
  (redact: (text: string) => string) =>
  (line: string): string =>
    `${JSON.stringify(JSON.parse(line, (_, value: unknown) => (typeof value === 'string' ? redact(value) : value)))}\n`;

/** Checks the operator's defaults like a request's fields. @throws KvError */
function expectPossible(run: () => unknown): void {
  try {
    run();
  } catch (cause) {
    if (cause instanceof Refusal)
      throw new KvError(cause.param ?? 'policy', cause.message.replace(`'${cause.param}': `, ''));
    throw cause;
  }
}
