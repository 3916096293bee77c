"""Every flag that a manifest gives to one of our programs must be one that the program knows, and every variable
KVRELAY_... one that some program reads.

    check_manifest_flags.py FOLDER_OF_MANIFESTS FOLDER_OF_PROGRAMS
"""

import pathlib
import re
import subprocess
import sys


def containers(text):
    """Yields (program, its arguments) of each container with `command: [PROGRAM]` and a list of `args`."""
    for found in re.finditer(r"command: \[([\w-]+)\]\n\s+args:\n((?:\s+- --[^\n]*\n)+)", text):
        yield found.group(1), re.findall(r"- (--[\w-]+)", found.group(2))


def main():
    manifests, programs = map(pathlib.Path, sys.argv[1:])
    checked, unknown = 0, []
    usages = {program: subprocess.run([programs / program, "--help"], capture_output=True, text=True, check=True).stdout
              for program in ("kvrelay-router", "kvrelay-prefill", "kvrelay-decode")}
    variables = set(re.findall(r"KVRELAY_\w+", "".join(usages.values())))
    for path in sorted(manifests.rglob("*.yaml")):
        for variable in re.findall(r"- name: (KVRELAY_\w+)", path.read_text()):
            checked += 1
            unknown += [] if variable in variables else [f"{path.name}: no program reads {variable}"]
        for program, flags in containers(path.read_text()):
            known = set(re.findall(r"--[\w-]+", usages[program]))
            checked += len(flags)
            unknown += [f"{path.name}: {program} knows no {flag}" for flag in flags if flag not in known]
    print("\n".join(unknown) or f"{checked} flags checked")
    sys.exit(1 if unknown or checked == 0 else 0)


main()
