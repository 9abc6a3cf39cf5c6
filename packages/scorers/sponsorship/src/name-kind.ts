/** What a name promises of its value: a secret, the name of one thing, or a number of one only if it looks like one. */
export type NameKind = 'secret' | 'key' | 'id' | 'thing';

const words = (list: string): ReadonlySet<string> => new Set(list.split(' '));
/** Values count whatever they look like. */
const SECRETS = words(
  'password passwd passphrase passcode pwd pw pass pin secret token credential credentials auth authorization cookie jwt bearer otp signature sig csrf dsn apikey authtoken accesskey',
);
/** Values count if they look made up: a key may also be a word. */
const KEYS = words('key keys sid salt nonce seed session hmac cert certificate tokens secrets webhook');
/** Names of one thing whatever it is. */
const IDS = words(
  'id ids uid uuid uuids guid gid oid pid number numbers num nr no ref reference references locator pnr sku serial imei iban bic vin isbn ssn hash sha sha1 sha256 digest checksum md5 fingerprint etag match cursor iid arn rma urn passport plate licence license identifier identification tenant',
);
/** Things that have numbers: values count if they look like one. */
const THINGS = words(
  'order ticket invoice booking reservation confirmation case claim tracking shipment parcel package consignment account customer member membership subscription policy contract incident issue request req correlation trace span transaction txn tx payment charge refund job run task build commit revision deployment message msg thread device instance container machine node user employee patient student file document doc record po receipt voucher coupon card code codes purchase delivery return docket flight visa permit meter asset batch lot item product part upload download event alert change bug pr merge pull session call gift loyalty phone upn prescription quote',
);
/** Last words of names that are about a secret or thing, and none themselves: `token_type`, `order_count`. */
const WORDS = /[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g;

/** Returns what a key, a column or a field is called by its last word, after cutting `api_key`, `orderId`, `X-Trace`. */
export function nameKind(name: string): NameKind | undefined {
  const parts = (name.match(WORDS) ?? []).map((word) => word.toLowerCase()).filter((word) => !/^\d+$/.test(word)),
    last = parts.at(-1),
    before = parts.at(-2) ?? '';
  if (last === undefined) return undefined;
  if (SECRETS.has(last) || /^p[as]{1,3}w(?:o?r?d)$/.test(last))
    return last === 'pass' && parts.length === 1 ? 'key' : 'secret';
  if (KEYS.has(last))
    return last === 'key' &&
      /^(?:api|access|private|secret|encryption|signing|auth|ssh|master|account|storage|licen[cs]e|activation|service|deploy)$/.test(
        before,
      )
      ? 'secret'
      : 'key';
  if (last === 'code' || last === 'codes')
    return /^(?:access|security|secret|verification|auth|otp|door|entry|pin|recovery|backup|confirm|confirmation|alarm|gate|lock|unlock|pairing|activation|promo|discount)$/.test(
      before,
    )
      ? 'secret'
      : 'thing';
  if (last === 'phrase') return /^(?:recovery|seed|pass)$/.test(before) ? 'secret' : undefined;
  if (last === 'no' || last === 'number' || last === 'numbers' || last === 'num' || last === 'nr')
    return /^(?:line|page|row|column|total|port|phone|version|serial|max|min)$/.test(before) && before !== 'serial'
      ? undefined
      : parts.length > 1 || last === 'number'
        ? 'id'
        : 'thing';
  if (last === 'match') return /none/.test(before) || before === 'if' ? 'id' : undefined;
  if (IDS.has(last)) return 'id';
  return THINGS.has(last) ? 'thing' : undefined; // in the plural they are counted
}

/** Placeholders, references to variables and empty values. */
const PLACEHOLDER =
  /^(?:$|\s|[<>=^~$%{([]|.*\$\{|.*\{\{|\*{2,}|x{3,}$|\.{3}|your|my[_-]|the[_-]|example$|change|redacted|\[?hidden|null$|none$|nil$|true$|false$|undefined$|yes$|no$|n\/a|tbd$|todo$|required$|optional$|process\.|os\.|env\.|self\.|this\.|await$|new$|lambda$|function$|async$|string$|number$|boolean$|bool$|int$|any$|void$|bearer$|basic$|digest$)/i;
const CODE = /[()[\]{}]|=>|\?\?|\|\||;$|^[a-z_$]+(?:\.[a-z_$]+)+$/i;
const DATE = /^(?:\d{4}-\d\d?-\d\d?|\d{4}\/\d\d?\/\d\d?|\d\d?[./]\d\d?[./]\d{2,4}|\d\d?:\d\d)/;
/** A number with a unit, a version, an address: quantities, not names. */
const QUANTITY =
  /^(?:[-+~]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[\d.,]+ ?%|[-+~]?\d*\.\d+|[v^~]?\d+(?:\.\d+){1,3}(?:[-+][\w.]+)?|[-+~]?\d+(?:\.\d+)?(?:%|[a-zµ°]{1,3}(?:\/[a-z]+)?|Mi|Gi|Ki|[KMGT]i?B|°C)|0x[0-9a-f]+|\d{1,3}[-x]\d{1,3}(?:px)?|\d+(?:st|nd|rd|th)|\d+px|1e\d+|\d+e-?\d+)$/;

/** Whether a value is no placeholder, code, date or quantity. */
export const isPlain = (value: string): boolean =>
  !PLACEHOLDER.test(value) && !CODE.test(value) && !DATE.test(value) && !QUANTITY.test(value);
const digitsIn = (value: string): number => value.replace(/\D/g, '').length;

/** Whether a value looks like the number of a thing: it has digits, and is neither a small number nor a word. */
export function looksNumbered(value: string, leastDigits = 4): boolean {
  if (!isPlain(value)) return false;
  const digits = digitsIn(value);
  if (/^#?\d+$/.test(value)) return digits >= leastDigits;
  if (/^[A-Z0-9-]{5,}$/.test(value)) return digits >= 1;
  return digits >= 2 && value.length >= 4 && digits * 8 >= value.length && !/\s.*\s/.test(value);
}

/** Changes between letters and digits, and between cases within words: many in what was made up by a machine. */
export function looksRandom(value: string): boolean {
  const digits = digitsIn(value),
    letters = value.replace(/[^a-z]/gi, '').length;
  if (!isPlain(value) || value.length < 6 || digits < 2 || letters < 2) return false;
  const changes = (value.match(/[a-z](?=\d)|\d(?=[a-z])/gi) ?? []).length;
  return changes >= 2;
}

/**
 * Whether a secret's name and value make a secret, and not code or speech about one.
 *
 * @param worded the value may be a word, as that of a password
 */
export function isSecretValue(value: string, kind: NameKind, quoted: boolean, worded = true): boolean {
  if (PLACEHOLDER.test(value) || (!quoted && /\w\(/.test(value))) return false;
  const digits = digitsIn(value);
  if (/^\d+$/.test(value)) return kind === 'secret' ? digits >= 4 : digits >= 6;
  if (kind === 'key') return value.length >= 6 && digits >= 1 && isPlain(value) && !/\s/.test(value);
  if (digits === 0 && value.length < 40 && nameKind(value) === 'secret') return false; // secretKeyRef: { key: password }
  if (quoted) return value.length >= 4 && !DATE.test(value);
  if (CODE.test(value) && !(digits > 0 && /[^\w.()[\]{}]/.test(value))) return false;
  if (digits === 0 && (!worded || /^[A-Z_]+$/.test(value))) return value.length >= 20 && /[a-z][A-Z]/.test(value);
  return value.length >= 4 && !QUANTITY.test(value);
}
