export { defensive } from './defensive.ts';
export { finch } from './finch.ts';
export { importance } from './importance.ts';
export { lastNear, redundancy } from './redundancy.ts';
export { scissorhands } from './scissorhands.ts';
