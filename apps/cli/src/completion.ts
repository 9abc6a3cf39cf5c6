import type { Command, Option } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Options whose value is the name of a policy. */
const takesPolicy = ({ long }: Option): boolean => /^--(decode-)?polic(y|ies)$/.test(long ?? '');
const optionsOf = (command: Command): readonly Option[] => command.createHelp().visibleOptions(command);
const longs = (command: Command): readonly string[] => optionsOf(command).flatMap(({ long }) => long ?? []);

/**
 * Returns a completion script: commands first, then options of the command; elsewhere files, and policy names for
 * options that take one.
 */
export const completionScript = (
  shell: (typeof SHELLS)[number],
  commands: readonly Command[],
  policies: readonly string[],
): string => ({ bash, zsh, fish })[shell](commands, policies);

const cases = (commands: readonly Command[]): string =>
  commands.map((command) => `    ${command.name()}) options="${longs(command).join(' ')}" ;;`).join('\n');
const policyFlags = (commands: readonly Command[]): string =>
  [
    ...new Set(
      commands.flatMap((command) =>
        optionsOf(command)
          .filter(takesPolicy)
          .map(({ long }) => long),
      ),
    ),
  ].join('|');
const nameList = (commands: readonly Command[]): string => commands.map((command) => command.name()).join(' ');

const bash = (commands: readonly Command[], policies: readonly string[]): string => `_kv() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" options=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${nameList(commands)} --help --version" -- "$word"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases(commands)}
  esac
  case "$before" in
    ${policyFlags(commands)}) COMPREPLY=($(compgen -W "${policies.join(' ')}" -- "$word")) ;;
    *) case "$word" in -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;; esac ;;
  esac
}
complete -o default -F _kv kv
`;

const zsh = (commands: readonly Command[], policies: readonly string[]): string => `#compdef kv
_kv() {
  local options=""
  if (( CURRENT == 2 )); then
    compadd -- ${nameList(commands)} --help --version
    return
  fi
  case "$words[2]" in
${cases(commands)}
  esac
  case "$words[CURRENT-1]" in
    ${policyFlags(commands)}) compadd -- ${policies.join(' ')} ;;
    *) case "$words[CURRENT]" in -*) compadd -- \${=options} ;; *) _files ;; esac ;;
  esac
}
compdef _kv kv
`;

const quoted = (text: string): string => `'${text.replace(/[\\']/g, '\\$&').replace(/\s+/g, ' ')}'`;
const fish = (commands: readonly Command[], policies: readonly string[]): string =>
  `${commands
    .flatMap((command) => [
      `complete -c kv -f -n __fish_use_subcommand -a ${command.name()} -d ${quoted(command.description())}`,
      ...optionsOf(command).flatMap((option) =>
        option.long === undefined || option.long === null
          ? []
          : `complete -c kv -n '__fish_seen_subcommand_from ${command.name()}' -l ${option.long.slice(2)}${
              takesPolicy(option) ? ` -x -a ${quoted(policies.join(' '))}` : option.required ? ' -r' : ''
            } -d ${quoted(option.description)}`,
      ),
    ])
    .join('\n')}\n`;
