/** Characters that move a terminal's cursor, change its title or the direction of text. */
const CONTROLS = /[\p{Cc}\u061C\u200E\u200F\u2028\u2029\u202A-\u202E\u2066-\u2069]/gu;

/** Removes control characters from an untrusted name, such as a model's, file's or piece's, to print it in a line. */
export const plain = (name: string): string => name.replace(CONTROLS, '');

/** Removes control characters from a text to print it, except tabs and line breaks. */
export const plainText = (text: string): string => text.replace(CONTROLS, (char) => (/[\n\t]/.test(char) ? char : ''));
