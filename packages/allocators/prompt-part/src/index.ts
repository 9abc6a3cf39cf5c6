export { promptPart } from './prompt-part.ts';
