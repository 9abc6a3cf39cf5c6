/** Files that are written whole or not at all. */

export { checkWritable, writeWhole } from './jobs/whole-file.ts';
