/** What moves a terminal's cursor, changes its title or turns the direction of text. */
const CONTROLS = /[\p{Cc}\u061C\u200E\u200F\u2028\u2029\u202A-\u202E\u2066-\u2069]/gu;

/** A name from outside, such as a model's, a file's or a piece's, as it may stand in a line on a terminal. */
export const plain = (name: string): string => name.replace(CONTROLS, '');

/** A text that is shown on a terminal, with its lines. */
export const plainText = (text: string): string => text.replace(CONTROLS, (char) => (/[\n\t]/.test(char) ? char : ''));
