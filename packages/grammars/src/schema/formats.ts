/** Patterns of formats. Each is what its standard allows, or a usual part of it. */
const year = '[0-9]{4}',
  leap = '(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)',
  date = `(?:${year}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|${leap}-02-29)`,
  time = '(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])',
  label = '[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*',
  short = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,14}[A-Za-z0-9])?',
  host = `${label}(?:\\.${label})*`,
  byte = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])',
  letter = "[A-Za-z0-9._~!$&'()*+,;=:@-]";
export const formats: ReadonlyMap<string, string> = new Map([
  ['date', `^${date}$`],
  ['time', `^${time}$`],
  ['date-time', `^${date}T${time}$`],
  ['duration', '^P(?:[0-9]{1,4}W|[0-9]{1,4}D(?:T[0-9]{1,4}H)?|T[0-9]{1,4}(?:H(?:[0-9]{1,4}M)?|M(?:[0-9]{1,4}S)?|S))$'],
  ['email', `^[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@${label}(?:\\.${label})+$`],
  ['hostname', `^${short}(?:\\.${short}){0,3}$`],
  ['ipv4', `^${byte}(?:\\.${byte}){3}$`],
  ['ipv6', '^(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}$'],
  ['uuid', '^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$'],
  [
    'uri',
    `^[A-Za-z][A-Za-z0-9+-]{0,15}:(?://${host}(?::[0-9]{1,4})?(?:/${letter}*)*|${letter}+(?:/${letter}*)*)(?:\\?${letter}*)?(?:#${letter}*)?$`,
  ],
]);
/** Formats of the standard that are not among them; all others say nothing about a string, as the standard has it. */
export const otherFormats: ReadonlySet<string> = new Set([
  ...['idn-email', 'idn-hostname', 'iri', 'iri-reference', 'json-pointer', 'regex', 'relative-json-pointer'],
  ...['uri-reference', 'uri-template'],
]);
