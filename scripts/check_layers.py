#!/usr/bin/env python3
"""Checks the rules of ARCHITECTURE.md that a compiler does not: who may use whom, and what may stand where.

    check_layers.py [--root DIR]   exit 0 if all rules hold, 1 with one line per violation
    check_layers.py --self-test    proves on a small made-up tree that each rule can fail

Rules: layer (includes and CMake links follow LAYERS), rpc-header (protobuf and gRPC stay in RPC_FOLDERS), blas
(<cblas.h> in one file), flags (read only where options are; CLI11 in FLAGS_LIBRARY), clock (time only through common/base/clock), path
(includes name files from the root), size (600 lines; a note from 400).
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile

# What each folder may include and link, beside itself. Nothing else is allowed, so the order is one-way.
LAYERS = {
    "common/base": "",
    "common/observability": "base",
    "common/tensor": "base",
    "common/model_file": "base tensor",
    "common/text": "base model_file",
    "common/kernels": "base tensor model_file",
    "common/kv": "base tensor kernels",
    "common/sampling": "base kernels",
    "common/model": "base tensor model_file kernels kv sampling",
    "common/kv_wire": "base observability tensor kernels kv sampling proto",
    "common/engine": "base observability tensor model_file kernels kv sampling model",
    "common/rpc": "base observability proto",
    "common/worker": "base observability tensor model_file text kernels kv sampling model kv_wire engine rpc proto",
    "prefill_worker": "base observability tensor model_file kernels kv sampling model kv_wire engine rpc worker proto",
    "decode_worker": "base observability tensor model_file kernels kv sampling model kv_wire engine rpc worker proto",
    # The router opens the model file for its vocabulary and template; it never computes.
    "router": "base observability model_file text rpc proto router/http",
    # A client of the service in the same process: it knows nothing of the router but the public API.
    "router/http": "base observability rpc proto router/web",
    # The page: TypeScript, and the C++ constants that it becomes.
    "router/web": "",
    "cli": "base observability rpc proto",
    "proto": "",
}
# Protobuf and gRPC headers and libraries.
RPC_FOLDERS = {"proto", "common/kv_wire", "common/rpc", "common/worker", "prefill_worker", "decode_worker", "router",
               "router/http", "cli"}
# Folders that must not be reachable from the router even through others.
ROUTER_NEVER = {f"common/{name}" for name in ("kernels", "kv", "sampling", "model", "kv_wire", "engine", "worker")}

MAX_LINES, NOTE_LINES = 600, 400
SIZED = {".cc", ".h", ".py", ".sh", ".rs", ".proto", ".cmake", ".ts", ".tsx", ".mjs", ".css"}
SKIPPED = re.compile(r"^(build.*|target|models|node_modules|__pycache__|\..*)$")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])\x27', re.DOTALL)
CLOCK = re.compile(
    r"chrono::\w+_clock(?!\w|::(?:time_point|duration))|\b\w+_clock::now\b|absl::(?:Now|GetCurrentTimeNanos)\b"
    r"|\bclock_gettime\s*\(|\bgettimeofday\s*\(|(?<![\w.>])time\s*\(\s*(?:NULL|nullptr|0|&\w+)\s*\)")
TARGET = re.compile(r"\b(?:kvrelay_library|kvrelay_binary|add_library|add_executable)\s*\(\s*(\w+)")
LINKS = re.compile(r"\b(?:kvrelay_library|kvrelay_binary)\s*\([^)]*?\bDEPS\b([^)]*)\)"
                   r"|\btarget_link_libraries\s*\(\s*[\w-]+([^)]*)\)")
RPC_LIBRARY = re.compile(r"^(gRPC|protobuf)::")
RPC_HEADER = re.compile(r"^(grpc|grpcpp|google/protobuf|google/rpc)/|\.pb\.h$")
FLAGS_LIBRARY = "common/base/flags"  # the only user of CLI11, and what others include
FLAG_FILE = re.compile(r"(^|/)(main|\w+_main|options\w*)\.(cc|h)$")


def allowed(folder):
  names = LAYERS[folder].split()
  return {name if name in LAYERS else f"common/{name}" for name in names} | {folder}


def folder_of(path):
  """The folder of LAYERS that a path (from the root) lies in, or None."""
  parts = path.split("/")
  for depth in (2, 1):
    if "/".join(parts[:depth]) in LAYERS and len(parts) > depth:
      return "/".join(parts[:depth])
  return None


def included_folder(header):
  return "proto" if header.startswith("kvrelay/") else folder_of(header)


class Checker:
  def __init__(self, root):
    self.root = pathlib.Path(root)
    self.violations, self.notes = [], []
    self.blas_files = []
    self.targets = {}  # target -> folder
    self.links = {}  # folder -> folders

  def fail(self, rule, path, message):
    self.violations.append(f"{path}: [{rule}] {message}")

  def run(self):
    files = sorted(self.files())
    for path in files:
      self.check_size(path)
      if path.endswith((".cc", ".h")):
        self.check_source(path)
    cmake = [path for path in files if path.endswith("CMakeLists.txt") and folder_of(path)]
    for path in cmake:
      for target in TARGET.findall(self.read_cmake(path)):
        self.targets[target] = folder_of(path)
    for path in cmake:
      self.check_links(path)
    self.check_router_reach()
    if len(self.blas_files) > 1:
      self.fail("blas", ", ".join(self.blas_files), "<cblas.h> belongs in one file")

  def files(self):
    for directory, folders, names in os.walk(self.root):
      folders[:] = [name for name in folders if not SKIPPED.match(name)]
      for name in names:
        yield (pathlib.Path(directory) / name).relative_to(self.root).as_posix()

  def read(self, path):
    return (self.root / path).read_text(encoding="utf-8", errors="replace")

  def read_cmake(self, path):
    return re.sub(r"#[^\n]*", "", self.read(path))

  def check_size(self, path):
    if pathlib.Path(path).suffix not in SIZED:
      return
    lines = self.read(path).count("\n")
    if lines > MAX_LINES:
      self.fail("size", path, f"{lines} lines, the limit is {MAX_LINES}: it probably holds two ideas")
    elif lines > NOTE_LINES:
      self.notes.append(f"{path}: {lines} lines; most files should stay under {NOTE_LINES}")

  def check_source(self, path):
    text = self.read(path)
    folder, is_test = folder_of(path), path.startswith("tests/")
    for quote, header in INCLUDE.findall(text):
      self.check_include(path, folder, is_test, quote, header)
    code = NOT_CODE.sub(" ", text)
    if not is_test and path != "common/base/clock.cc":
      for match in CLOCK.finditer(code):
        self.fail("clock", path, f"'{match.group(0)}': time comes from common/base/clock only")

  def check_include(self, path, folder, is_test, quote, header):
    if header.endswith("cblas.h"):
      self.blas_files.append(path)
    if header.startswith("CLI/") and not is_test and path != FLAGS_LIBRARY + ".cc":
      self.fail("flags", path, f"<{header}>: takes long to compile; use {FLAGS_LIBRARY}.h")
    reads_flags = FLAG_FILE.search(path) or path.startswith(("cli/", "tests/", FLAGS_LIBRARY))
    if header == FLAGS_LIBRARY + ".h" and not reads_flags:
      self.fail("flags", path, f"{header}: flags are read in main.cc, options and the client only")
    if folder is None:
      return
    if RPC_HEADER.search(header) and folder not in RPC_FOLDERS:
      self.fail("rpc-header", path, f"{header}: no protobuf or gRPC header below kv_wire")
      return
    other = included_folder(header)
    if other is not None and other not in allowed(folder):
      self.fail("layer", path, f"includes {header}, but {folder} may not use {other}")
    if quote == '"' and "/" not in header:
      self.fail("path", path, f'"{header}": name the file from the root of the tree')
    if header.startswith("../") or "/../" in header:
      self.fail("path", path, f'"{header}": name the file from the root of the tree')

  def check_links(self, path):
    folder = folder_of(path)
    for groups in LINKS.findall(self.read_cmake(path)):
      for library in " ".join(groups).split():
        if library.startswith("kvrelay_"):
          other = self.targets.get(library)
          if other is None:
            self.fail("layer", path, f"links {library}, which no folder of the layering defines")
          elif other not in allowed(folder):
            self.fail("layer", path, f"links {library}, but {folder} may not use {other}")
          else:
            self.links.setdefault(folder, set()).add(other)
        elif RPC_LIBRARY.match(library) and folder not in RPC_FOLDERS:
          self.fail("rpc-header", path, f"links {library}: no protobuf or gRPC below kv_wire")

  def check_router_reach(self):
    reached, open_ends = set(), ["router"]
    while open_ends:
      for other in self.links.get(open_ends.pop(), ()):
        if other not in reached:
          reached.add(other)
          open_ends.append(other)
    for folder in sorted(reached & ROUTER_NEVER):
      self.fail("layer", "router/CMakeLists.txt", f"reaches {folder} through its libraries; the router never computes")


def check(root):
  checker = Checker(root)
  checker.run()
  return checker


# A tree that keeps all rules, with everything in it that must not be mistaken for a violation.
SOUND_TREE = {
    "common/base/clock.cc": "auto t = std::chrono::steady_clock::now();\n",
    "common/base/CMakeLists.txt": "kvrelay_library(kvrelay_base SOURCES clock.cc DEPS absl::time)\n",
    "common/kernels/openblas.cc": '#include <cblas.h>\n#include "common/base/check.h"\n',
    "common/kernels/CMakeLists.txt": "kvrelay_library(kvrelay_kernels DEPS kvrelay_base)\n",
    "common/rpc/CMakeLists.txt": "kvrelay_library(kvrelay_rpc DEPS kvrelay_base gRPC::grpc++)  # not kvrelay_engine\n",
    "common/rpc/deadline.cc": "#include <grpcpp/grpcpp.h>\n// absl::Now() is not used\n"
                              "std::chrono::system_clock::time_point At(int64_t nanos);\nauto a = span.time(0);\n"
                              "const char* kText = \"absl::Now()\";\nchar c = '\"';  // absl::Now() \"\n",
    "common/base/flags.cc": '#include <CLI/CLI.hpp>\n#include "common/base/flags.h"\n',
    "router/main.cc": '#include "common/base/flags.h"\n#include "router/router.h"\n#include "kvrelay/v1/generation.pb.h"\n',
    "router/CMakeLists.txt": "kvrelay_library(kvrelay_router_lib DEPS kvrelay_rpc)\n"
                             "kvrelay_binary(kvrelay-router SOURCES main.cc DEPS kvrelay_router_lib gRPC::grpc++)\n",
    "cli/args.cc": '#include "common/base/flags.h"\n',
    "tests/base/clock_test.cc": "#include <CLI/CLI.hpp>\nauto t = std::chrono::steady_clock::now();\n",
    "build/junk.cc": "auto t = absl::Now();\n",
}
# rule, file, content that breaks it
BROKEN = [
    ("layer", "common/base/a.cc", '#include "common/kernels/isa.h"\n'),
    ("layer", "common/kv/a.cc", '#include "common/model/model.h"\n'),
    ("layer", "router/a.cc", '#include "common/kv/layout.h"\n'),
    ("layer", "router/a.cc", '#include "decode_worker/service.h"\n'),
    ("layer", "prefill_worker/a.cc", '#include "common/text/tokenizer.h"\n'),
    ("layer", "common/base/CMakeLists.txt", "kvrelay_library(kvrelay_base DEPS kvrelay_kernels)\n"),
    ("layer", "router/CMakeLists.txt", "target_link_libraries(kvrelay_router_lib PUBLIC kvrelay_kernels)\n"),
    ("layer", "common/rpc/CMakeLists.txt", "kvrelay_library(kvrelay_rpc DEPS kvrelay_unheard_of)\n"),
    ("rpc-header", "common/model/a.cc", "#include <grpcpp/grpcpp.h>\n"),
    ("rpc-header", "common/kv/a.h", '#include "kvrelay/worker/v1/kv.pb.h"\n'),
    ("rpc-header", "common/engine/a.cc", "#  include <google/protobuf/message.h>\n"),
    ("rpc-header", "common/kernels/CMakeLists.txt", "kvrelay_library(kvrelay_kernels DEPS protobuf::libprotobuf)\n"),
    ("blas", "common/kernels/second.cc", "#include <cblas.h>\n"),
    ("flags", "router/placement.cc", '#include "common/base/flags.h"\n'),
    ("flags", "router/options.cc", "#include <CLI/CLI.hpp>\n"),
    ("flags", "common/base/a.cc", '#include "CLI/App.hpp"\n'),
    ("clock", "router/a.cc", "auto t = std::chrono::steady_clock::now();\n"),
    ("clock", "router/a.cc", "using Ticks = std::chrono::system_clock;\n"),
    ("clock", "router/a.cc", "using namespace std::chrono; auto t = steady_clock::now();\n"),
    ("clock", "common/engine/a.cc", "auto t = absl::Now();\n"),
    ("clock", "common/engine/a.cc", "srand(time(nullptr));\n"),
    ("clock", "cli/a.cc", "clock_gettime(CLOCK_REALTIME, &t);\n"),
    ("path", "router/a.cc", '#include "placement.h"\n'),
    ("path", "router/a.cc", '#include "../common/base/check.h"\n'),
    ("size", "router/a.cc", "\n" * (MAX_LINES + 1)),
    ("size", "scripts/a.py", "\n" * (MAX_LINES + 1)),
]


def write_tree(root, files):
  for path, content in files.items():
    (pathlib.Path(root) / path).parent.mkdir(parents=True, exist_ok=True)
    (pathlib.Path(root) / path).write_text(content, encoding="utf-8")


def rules_broken(files):
  with tempfile.TemporaryDirectory() as root:
    write_tree(root, files)
    return [re.search(r"\[([\w-]+)\]", line).group(1) for line in check(root).violations]


def self_test():
  failures = []
  if broken := rules_broken(SOUND_TREE):
    failures.append(f"the sound tree breaks {broken}")
  for rule, path, content in BROKEN:
    broken = rules_broken(SOUND_TREE | {path: content})
    if broken != [rule]:
      failures.append(f"{path} with {content[:60]!r} should break [{rule}] once, breaks {broken}")
  # A path to the kernels that no single link shows: allowed at each step, were the table of layers itself wrong.
  LAYERS["common/rpc"] += " kernels"
  reach = {"common/rpc/CMakeLists.txt": "kvrelay_library(kvrelay_rpc DEPS kvrelay_kernels)\n"}
  if (broken := rules_broken(SOUND_TREE | reach)) != ["layer"]:
    failures.append(f"the router's reach of the kernels should break [layer] once, breaks {broken}")
  with tempfile.TemporaryDirectory() as root:
    write_tree(root, SOUND_TREE | {"router/a.cc": "\n" * (NOTE_LINES + 1)})
    if len(check(root).notes) != 1:
      failures.append("a long file should give one note")
  for failure in failures:
    print(failure)
  print(f"self-test: {len(BROKEN) + 3} cases, {len(failures)} failed")
  return 1 if failures else 0


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent, help="the tree to check")
  parser.add_argument("--self-test", action="store_true", help="prove that each rule can fail")
  options = parser.parse_args()
  if options.self_test:
    return self_test()
  checker = check(options.root)
  for note in checker.notes:
    print(f"note: {note}")
  for violation in checker.violations:
    print(violation)
  print(f"layering: {len(checker.violations)} violations")
  return 1 if checker.violations else 0


if __name__ == "__main__":
  sys.exit(main())
