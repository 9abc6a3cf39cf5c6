import { KvError } from '@kv/core';

/** The protocol's error object. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
}

interface RefusalOptions {
  /** HTTP status. @defaultValue 400 */
  readonly status?: number;
  /** The invalid field. */
  readonly param?: string;
  readonly code?: string;
  /** Seconds until a retry makes sense, for `Retry-After`. */
  readonly retryAfter?: number;
}

/** An error response of the protocol. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;
  readonly retryAfter: number | undefined;

  constructor(message: string, { status = 400, param, code, retryAfter }: RefusalOptions = {}) {
    super(message);
    [this.status, this.param, this.code, this.retryAfter] = [status, param ?? null, code ?? null, retryAfter];
  }

  get body(): ErrorBody {
    const { message, param, code } = this;
    return { error: { message, type: typeOf(this.status), param, code } };
  }
}

const typeOf = (status: number): string =>
  status === 401
    ? 'authentication_error'
    : status === 429
      ? 'rate_limit_error'
      : status >= 500
        ? 'server_error'
        : 'invalid_request_error';

/** Request field for each `KvError.at`. */
const FIELDS: Readonly<Record<string, string>> = {
  budget: 'budget',
  block: 'block',
  every: 'every',
  policy: 'policy',
  protect: 'kv.protect',
  sampler: 'temperature',
};

/**
 * Converts an error to a refusal: the library's sentences about the request are the client's fault, anything else is
 * the server's.
 */
export function refusalOf(cause: unknown): Refusal {
  if (cause instanceof Refusal) return cause;
  if (KvError.is(cause) && cause.at !== 'sequence')
    return new Refusal(cause.message, {
      ...(FIELDS[cause.at] !== undefined && { param: FIELDS[cause.at] as string }),
      ...(cause.at === 'prompt' && { code: 'context_length_exceeded' }),
    });
  return new Refusal('the server failed at this request; its log says why', { status: 500 });
}

/** The refusal of a request whose client is gone. */
export const cancelledRefusal = (): Refusal => new Refusal('the request was cancelled', { status: 499 });
