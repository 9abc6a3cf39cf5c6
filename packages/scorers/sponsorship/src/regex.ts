import type { Tokens } from '@kv/core';
import { matching } from './detector.ts';

const NAME = 'key|code|password|passwd|passphrase|passcode|pwd|pin|secret|token|credentials?|auth(?:orization)?|session(?:[ _-]?id)?|cookie|endpoint|dsn|connection[ _-]?string';
/** Words that may be glued to a name, as in apiKey, access_token, DB_PASSWORD. */
const BEFORE = '(?:api|access|secret|private|public|client|auth|bearer|session|refresh|user|admin|db|database)[ _.-]?';
/** A closing quote, "is" or "was", then one colon or equals sign that is no `::`, `://`, `==` or `=>`. */
const AFTER = String.raw`["'\]]*(?:[ \t]+(?:is|was))?[ \t]*(?::(?!:|\/\/)|=(?![=>]))`;

const explicit = matching(new RegExp(`(?<![a-z0-9])(?:${BEFORE})*(?:${NAME})${AFTER}`, 'i'));

/**
 * Explicit keys, such as `key:`, `"password":`, `Authorization:`, `session_id=`, `API_KEY =`, `code is:`; in any case and in JSON, YAML,
 * HTTP header, INI and ENV form. The anchor is the token of the colon or equals sign.
 *
 * @remarks Transactional Attention, section 3.2, with the patterns written out by us: the paper lists four.
 */
export const regex = (tokens: Tokens): readonly number[] => explicit(tokens);
