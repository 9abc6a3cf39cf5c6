import { getSystemErrorMap } from 'node:util';

/** A Node error of the operating system or a name server. */
interface SystemError extends Error {
  readonly code: string;
  readonly path?: string;
  readonly address?: string;
  readonly host?: string;
  readonly hostname?: string;
  readonly port?: number | string;
  readonly syscall?: string;
}

/** The meaning of each code, in libuv's words. */
const MEANINGS: ReadonlyMap<string, string> = new Map([
  ...[...getSystemErrorMap().values()].map(([code, text]) => [code, text] as const),
  ['ENOTFOUND', 'no such host'],
]);

/** Remedies, by call and code or by code. */
const REMEDIES: Readonly<Record<string, string>> = {
  'listen EADDRINUSE': '--port names another port; --port 0 takes any that is free',
  'listen EACCES': 'take a --port of 1024 or above',
  'listen EADDRNOTAVAIL': '--host must be an address of this machine',
  ENOENT: 'name a file or folder that is there',
  ENOTDIR: 'a part of this path is a file, not a folder',
  EISDIR: 'name a file, not a folder',
  EACCES: 'check its permissions',
  EPERM: 'check its permissions',
  EROFS: 'name a place that can be written',
  ENOSPC: 'free some room, or name a place on another disk',
  EDQUOT: 'free some room, or name a place on another disk',
  EMFILE: "raise the limit of open files ('ulimit -n')",
  ENFILE: 'close other programs: the machine has too many files open',
  ECONNREFUSED: 'check that a server listens there',
  ENOTFOUND: 'check the name, and that this machine is online',
  EAI_AGAIN: 'check the name, and that this machine is online',
};

const isSystemError = (error: unknown): error is SystemError =>
  error instanceof Error && MEANINGS.has((error as Partial<SystemError>).code ?? '');

/** Returns the first system error among an error, its collected errors and its causes. */
function systemErrorIn(error: unknown, depth = 4): SystemError | undefined {
  if (isSystemError(error)) return error;
  if (!(error instanceof Error) || depth === 0) return undefined;
  const inside: readonly unknown[] = [...(error instanceof AggregateError ? error.errors : []), error.cause];
  for (const each of inside) {
    const found = systemErrorIn(each, depth - 1);
    if (found) return found;
  }
  return undefined;
}

/** Describes a system error as a sentence: where, why, and what to do. Undefined for other errors. */
export function systemSentence(error: unknown): string | undefined {
  const found = systemErrorIn(error);
  if (!found) return undefined;
  const { code, path, address, hostname, host = hostname, port, syscall = '' } = found,
    where = path ?? [address ?? host, port].filter((part) => part !== undefined).join(':'),
    remedy = REMEDIES[`${syscall} ${code}`] ?? REMEDIES[code],
    called = syscall === '' ? code : `${code} at ${syscall}`;
  return `${where || syscall || 'system'}: ${MEANINGS.get(code) ?? code} (${called})${remedy === undefined ? '' : `: ${remedy}`}`;
}
