"""A local service for the tests of the HTTP gateway and its page: real processes on free loopback ports.

Programs come from $KVRELAY_BINARY_DIR/bin, the model from $KVRELAY_MODEL.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

# Packages that `./dev test` fetches, for whoever imports this first; else those of the Python that runs this.
sys.path.insert(0, f"{os.environ['KVRELAY_SOURCE_DIR']}/models/python-%d.%d" % sys.version_info[:2])

PATIENCE_S = 120


def wait_until(condition, what):
  """Returns the first true value of `condition`."""
  give_up = time.monotonic() + PATIENCE_S
  while not (value := condition()):
    if time.monotonic() > give_up:
      raise TimeoutError(what)
    time.sleep(0.02)
  return value


class Service:
  """One prefill worker, some decode workers (decode, decode-2, ...), and routers."""

  def __init__(self, decodes=1):
    self.decodes = ["decode"] + [f"decode-{n}" for n in range(2, decodes + 1)]
    self.directory = pathlib.Path(tempfile.mkdtemp(prefix="kvrelay-http-"))
    self.processes = {}
    self.addresses = {}
    try:
      for name in ("prefill", *self.decodes):
        self.start(name.split("-")[0], name, "--threads", "1", "--kv-pool-mib", "256")
      for name in ("prefill", *self.decodes):
        self.addresses[name] = self.address(name, "port")
    except BaseException:
      self.stop()
      raise

  def start(self, role, name, *flags):
    program = pathlib.Path(os.environ["KVRELAY_BINARY_DIR"]) / "bin" / f"kvrelay-{role}"
    log = open(self.directory / f"{name}.log", "wb")
    self.processes[name] = subprocess.Popen(
        [program, "--model", os.environ["KVRELAY_MODEL"], "--listen", "127.0.0.1:0", "--instance", name,
         "--port-file", self.directory / f"{name}.port", "--metrics-listen", "127.0.0.1:0",
         "--metrics-port-file", self.directory / f"{name}.metrics", *flags],
        stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    log.close()

  def address(self, name, kind):
    """What the process wrote to its file of that kind, once it has."""
    file = self.directory / f"{name}.{kind}"

    def read():
      if self.processes[name].poll() is not None:
        raise RuntimeError(f"{name} has ended:\n{self.log(name)}")
      return file.exists() and file.read_text().strip()
    return wait_until(read, f"{name} does not listen")

  def start_router(self, name, *flags):
    """Returns the URL of its HTTP gateway, when its workers are ready."""
    decodes = [flag for decode in self.decodes for flag in ("--decode", self.addresses[decode])]
    self.start("router", name, "--prefill", self.addresses["prefill"], *decodes, "--http-listen", "127.0.0.1:0",
               "--http-port-file", self.directory / f"{name}.http", *flags)
    self.addresses[name] = self.address(name, "port")
    return f"http://{self.address(name, 'http')}"

  def wait_ready(self, router):
    self.client(router, "wait", "--all", "--timeout-s", str(PATIENCE_S))

  def client(self, router, *arguments):
    """Standard output of the client kvrelay."""
    program = pathlib.Path(os.environ["KVRELAY_BINARY_DIR"]) / "bin" / "kvrelay"
    return subprocess.run([program, *arguments, "--address", self.addresses[router]], check=True,
                          capture_output=True, text=True, timeout=PATIENCE_S).stdout

  def metrics(self, name):
    """What a scrape of a process finds: value by name with labels."""
    with urllib.request.urlopen(f"http://{self.address(name, 'metrics')}/metrics", timeout=PATIENCE_S) as response:
      lines = response.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

  def idle(self, router):
    """Whether no worker has work."""
    workers = json.loads(self.client(router, "status", "--json"))["workers"]
    return all(worker["active_sessions"] == 0 and worker["kv_blocks_referenced"] == 0 for worker in workers)

  def log(self, name):
    return (self.directory / f"{name}.log").read_text(errors="replace")

  def terminate(self, name):
    """Asks a process to end; its exit code."""
    self.processes[name].send_signal(signal.SIGTERM)
    return self.processes[name].wait(PATIENCE_S)

  def kill(self, name):
    """Ends a process without asking; what it would have said does not count."""
    process = self.processes.pop(name)
    process.kill()
    process.wait(PATIENCE_S)

  def stop(self):
    """Ends all processes and removes the files. Returns what did not end well."""
    for process in self.processes.values():
      process.terminate()
    complaints = []
    for name, process in self.processes.items():
      try:
        if process.wait(PATIENCE_S) != 0:
          complaints.append(f"{name} ended with {process.returncode}:\n{self.log(name)}")
      except subprocess.TimeoutExpired:
        process.kill()
        complaints.append(f"{name} did not end")
    shutil.rmtree(self.directory)
    return complaints
