export { advance, apply, attend, retain } from './host.ts';
export { cpu, readCpu } from './cpu.ts';
