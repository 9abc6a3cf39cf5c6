import { Command } from 'commander';
import type { Terminal } from '../terminal.ts';
export const needleCommand = (_t: Terminal): Command => new Command('needle');
