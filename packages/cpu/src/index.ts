export { advance, apply, retain } from './host.ts';
export { cpu, readCpu } from './cpu.ts';
