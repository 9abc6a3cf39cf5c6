// A method is a name, a source, the options that it passes on and a composition. A scorer alone needs no method: policy
// text appends topK.

export * from './budgets.ts';
export * from './scores.ts';
export * from './transactional-attention.ts';
export * from './units.ts';
export * from './views.ts';
