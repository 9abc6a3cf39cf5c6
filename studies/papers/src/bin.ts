import { runProgram } from '../../../apps/cli/src/program.ts';
import { processTerminal } from '../../../apps/cli/src/terminal.ts';
import { PAPERS } from './command.ts';

process.exitCode = await runProgram(PAPERS, ['papers', ...process.argv.slice(2)], processTerminal());
