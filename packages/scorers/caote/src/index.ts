export { caote } from './caote.ts';
export { dropkv } from './dropkv.ts';
export { fastCaote } from './fast-caote.ts';
export { squaredErrors } from './squared-errors.ts';
