const MINUTES = String.raw`°(?:[ \t]?\d{1,2}(?:\.\d{1,6})?['′’](?:[ \t]?\d{1,2}(?:\.\d{1,6})?["″”])?)?`;
/** Degrees with three decimals, or with their sign; a latitude without a sign is not 0. */
const LATITUDE = String.raw`[-+]?(?:[1-9]\d?\.\d{3,12}|\d{1,2}(?:\.\d{1,12})?${MINUTES})°?`,
  LONGITUDE = String.raw`[-+]?(?:\d{1,3}\.\d{3,12}|\d{1,3}(?:\.\d{1,12})?${MINUTES})°?`;
/** Source of a pattern of geographic coordinates, which no third number follows, as in a vector. */
export const COORDINATES = String.raw`${LATITUDE}(?:[ \t]?[NS])?(?:[ \t]?[,;/][ \t]?|[ \t])${LONGITUDE}(?:[ \t]?[EW](?!\w))?(?!\.?\d|[ \t]{0,2}[,;]?[ \t]?[-+]?\d)`;

/** Source of a pattern of what an endpoint is: an address, a host with a port or path, or a path. */
export const LOCATION = String.raw`(?:[a-z][a-z0-9+.-]{1,15}://|(?:[\w-]{1,63}\.){1,8}[a-z]{2,12}[:/]|(?:[\w-]{1,63}\.){0,8}[\w-]{1,63}:\d{2,5}|/[\w{])`;
/** Names of what has a location. */
export const LOCATED = 'endpoint|webhook|base[ _-]?ur[il]';
