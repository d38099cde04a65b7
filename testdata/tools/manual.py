#!/usr/bin/env python3
"""The manual page and the bash completion, written from what `hlocc --help` and the commands' own
--help say.

    manual.py man|bash HLOCC
"""
import re
import subprocess
import sys


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.decode()


def commands(hlocc):
    """Pairs of a command's name and what it does."""
    return re.findall(r"^  (\w+) +(\S.*)$", run(hlocc, "--help").split("\n\n", 2)[2], re.M)


def escape(text):
    """Text for roff: no escapes, no accidental requests."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def help_parts(text):
    """Usage lines, the text, and the options with what is behind them as they are laid out."""
    usage, text_lines, option_lines = [], [], []
    for line in text.rstrip("\n").split("\n"):
        if line.startswith("usage: ") or (usage and not text_lines and not option_lines
                                           and line.startswith("       ")):
            usage.append(line[7:])
        elif line.startswith("  "):
            option_lines.append(line)
        elif option_lines:
            option_lines.append(line)
        else:
            text_lines.append(line)
    return usage, text_lines, option_lines


def man(hlocc):
    version = run(hlocc, "--version").split()[1]
    everything = commands(hlocc)
    print(f'.TH HLOCC 1 "" "hlocc {version}" "User Commands"')
    print(".SH NAME\nhlocc \\- an ahead\\-of\\-time compiler for HLO text")
    print(".SH SYNOPSIS\n.B hlocc\n.I COMMAND\n[OPTIONS] ...")
    print(".SH DESCRIPTION")
    print(escape("hlocc reads HLO, the tensor language that JAX, TensorFlow and PyTorch/XLA hand to "
                 "XLA, as text, and makes native objects, shared libraries and programs of it, or "
                 "runs it. FILE may be -, standard input. Diagnostics go to standard error as "
                 "FILE:LINE:COL: error: message; results to standard output or to the named file, "
                 "which is written whole or not at all."))
    print(".SH COMMANDS")
    for name, what in everything:
        print(f".TP\n.B {name}\n{escape(what)}")
    for name, what in everything:
        usage, text, options = help_parts(run(hlocc, name, "--help"))
        print(f".SH {name.upper()}")
        for line in usage:
            print(f".B {escape(line)}\n.br")
        if text:
            print(".PP\n" + escape("\n".join(text)))
        if options:
            print(".PP\n.nf\n" + escape("\n".join(options)) + "\n.fi")
    print(".SH EXIT STATUS")
    for status, what in [("0", "done"), ("1", "the input is at fault"),
                         ("2", "the command line is at fault"),
                         ("3", "a fault of the compiler itself")]:
        print(f".TP\n.B {status}\n{what}")
    print(".SH SEE ALSO\nThe user guide and more in /usr/share/doc/hlocc or beside it; "
          "hlocc.h, the compiler as a library, with\n.BR pkg\\-config (1).")


def option_words(text):
    """Options, None where they take no value, else the values that the text lists."""
    found = {}
    for name, equals, value in re.findall(r"(--[a-z][a-z-]*)(?:(=)([A-Za-z0-9|.]+))?", text):
        words = [w for w in value.rstrip(".").split("|") if w == w.lower()] if "|" in value else []
        found[name] = words or found.get(name) or ([] if equals else None)
    for name in re.findall(r"--\[no-\]([a-z-]+)", text):
        found["--" + name] = found["--no-" + name] = None
    kinds = re.search(r"--emit=KIND +(.*?)\n  -", text, re.S)
    if kinds:
        found["--emit"] = re.findall(r"[a-z]+(?:-[a-z]+)*",
                                     re.sub(r"\(default\)|for \w+:", "", kinds.group(1)))
    return found


def bash(hlocc):
    everything = commands(hlocc)
    print("# bash completion for hlocc; written by testdata/tools/manual.py")
    print("_hlocc() {")
    print("    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} options= option=")
    print("    COMPREPLY=()")
    print("    if [ \"$COMP_CWORD\" = 1 ]; then")
    print(f"        COMPREPLY=($(compgen -W '{' '.join(n for n, _ in everything)} help --help "
          "--version' -- \"$cur\"))")
    print("        return\n    fi")
    print("    # --option=value comes as three words")
    print("    [ \"$prev\" = = ] && option=${COMP_WORDS[COMP_CWORD-2]}")
    print("    [ \"$cur\" = = ] && option=$prev cur=")
    print("    case ${COMP_WORDS[1]}$option in")
    for name, _ in everything:
        options = option_words(run(hlocc, name, "--help"))
        for option, values in sorted(options.items()):
            if values:
                print(f"        {name}{option}) options='{' '.join(values)}' ;;")
        words = " ".join(sorted(o + ("" if v is None else "=") for o, v in options.items()))
        print(f"        {name}) options='{words}' ;;")
    print(f"        help) options='{' '.join(n for n, _ in everything)}' ;;")
    print("    esac")
    print("    case $option$cur in")
    print("        -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;")
    print("        *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;")
    print("    esac")
    print("    case $COMPREPLY in *=) compopt -o nospace ;; esac")
    print("}\ncomplete -o filenames -F _hlocc hlocc")


if __name__ == "__main__":
    {"man": man, "bash": bash}[sys.argv[1]](sys.argv[2])
