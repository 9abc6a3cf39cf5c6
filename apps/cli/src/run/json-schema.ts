import { parseJson } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import type { Report } from '@kv/models';
import { readText } from './questions.ts';

/** Returns the JSON schema in a file. @throws KvError for a file that cannot be read or holds none */
export function readSchema(file: string, cwd: string): object | boolean {
  const schema = parseJson(new TextEncoder().encode(readText(file, cwd)), file, 128);
  if (typeof schema === 'boolean' || (typeof schema === 'object' && schema !== null && !Array.isArray(schema)))
    return schema;
  throw new KvError(
    file,
    `expected a JSON schema, which is an object, true or false, got ${Array.isArray(schema) ? 'a list' : JSON.stringify(schema).slice(0, 40)}`,
  );
}

/** Returns a line for an answer that ended before its JSON did. */
export const unfinishedLine = ({ finish }: Pick<Report, 'finish'>): string =>
  finish === 'eos'
    ? ''
    : `the answer is not whole JSON: ${
        {
          length: 'it reached --max-new-tokens',
          stop: 'a text of --stop ended it',
          context: "the model's context was full",
          aborted: 'it was interrupted',
        }[finish]
      }\n`;
