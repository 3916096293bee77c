#!/bin/sh
# Kernel objects are compiled with instruction set flags. Were one of them to define an inline function of a shared header,
# the linker could pick that copy for the whole program, and it would crash on CPUs without those instructions. The same
# goes for code that runs before main. So such an object may define its kernel set and nothing else.
# Usage: check_linkage.sh OBJECT...
set -eu
for object in "$@"; do
  extra=$(nm --defined-only --extern-only --demangle "$object" |
          grep -Ev ' [DR] kvrelay::kernels::k[A-Za-z0-9]+Kernels$' || true)
  if [ -n "$extra" ]; then
    printf '%s defines more than its kernel set:\n%s\n' "$object" "$extra" >&2
    exit 1
  fi
  if nm "$object" | grep -E '_GLOBAL__sub_I' >&2; then
    printf '%s runs code before main\n' "$object" >&2
    exit 1
  fi
done
