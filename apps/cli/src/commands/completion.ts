import { oneOf } from '@kv/core';
import { fitValue } from '@kv/core/engine';
import { policyNames } from '@kv/policies';
import { Command } from 'commander';
import { completionScript, SHELLS } from '../completion.ts';
import { withExamples } from '../help.ts';
import type { Terminal } from '../terminal.ts';

const SHELL = oneOf(SHELLS, 'bash', 'The shell.');

/** `kv completion`: prints a script for a shell to complete commands, options and names of policies. */
export const completionCommand = (terminal: Terminal): Command =>
  withExamples(
    new Command('completion')
      .description('Print a script with which a shell completes commands, options and names of policies.')
      .argument('<shell>', SHELLS.join(', '), (text) => fitValue('shell', SHELL, text))
      .action((shell: (typeof SHELLS)[number], _: object, command: Command) => {
        terminal.stdout.write(completionScript(shell, command.parent?.commands ?? [], policyNames));
      }),
    ['source <(kv completion bash)', 'in this bash; a line of ~/.bashrc does it for all'],
    ['kv completion zsh > ~/.zfunc/_kv', 'for every zsh to come, with ~/.zfunc in its fpath'],
    ['kv completion fish > ~/.config/fish/completions/kv.fish', 'for every fish to come'],
  );
